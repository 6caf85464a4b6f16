/**
 * The states of pages: each says its reason in words, and the way out. Most have their test here, which begins with the name of the state; others are
 * drawn by the tests of `conflicts`, `drawer`, `editing`, `execution` and `lists`.
 */

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Daemon, endSession, expect, login, test } from "./harness";
import { draw, STATES } from "./look";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const MANUAL = "trigger: {manual: {}}\nsteps:\n  - {id: a, set: {x: 1}}\n";
const SIGNED = `trigger:
  webhook:
    mode: sync
    verify: {secret: "\${{ secrets.stateHook }}"}
steps: [{set: {a: 1}}]
`;

test("each state is drawn by a test", () => {
  const specs = readdirSync(FOLDER).filter((file) => file.endsWith(".spec.ts"));
  const text = specs.map((file) => readFileSync(join(FOLDER, file), "utf8")).join("\n");
  const drawn = new Set([...text.matchAll(/await draw\(\w+, "([^"]+)"/g)].map(([, state]) => state));
  expect(STATES.filter((state) => !drawn.has(state))).toEqual([]);
});

test("empty: an explanation, and the button and command that create an entry", async ({ open, daemon }) => {
  await daemon.write("automations/state-empty.yaml", MANUAL);
  await open.goto(`${daemon.base}/automations/state-empty?tab=executions`);
  await expect(open.getByText("It has not run yet")).toBeVisible();
  await expect(open.getByText("cogwork start state-empty")).toBeVisible();
  await open.getByRole("link", { name: "Try its trigger" }).click();
  await expect(open.getByText("No payload is saved")).toBeVisible();
  await open.getByRole("button", { name: "Write a payload" }).click();
  await expect(open.getByRole("dialog", { name: "Configure payload" })).toBeVisible();
});

test("empty: each list of a new project explains itself with a button and a command", async ({ stranger: page }) => {
  const own = await new Daemon().start({}, "empty");
  try {
    await login(page, own);
    for (const [path, title, command, make] of [
      ["/", "No automation yet", "cogwork new", "New automation"],
      ["/executions", "No execution matches", "cogwork start", "Choose an automation"],
      ["/inbox", "Nothing waits for a person", "waitFor", ""],
      ["/events", "No automation sends an event", "cogwork events emit", "New automation that an event starts"],
      ["/messages", "No enabled automation starts by messages of a broker", "cogwork sources", "New automation"],
      ["/connections", "No connection yet", "cogwork connectors", "New connection"],
      ["/state", "No value in this scope", "cogwork state set", "Keep the first value"],
      ["/access", "No token but the admin token", "cogwork token create", "Create a token"],
    ] as const) {
      await page.goto(own.base + path);
      await expect(page.getByText(title)).toBeVisible();
      await expect(page.locator(".empty")).toContainText(command);
      await expect(page.locator(".empty")).toContainText(make);
      await draw(page, "empty", title);
    }
  } finally {
    await own.stop();
  }
});

test("loading: a late response has a skeleton, and old data stays while new data loads", async ({ open, daemon }) => {
  let release = () => {};
  const held = new Promise<void>((done) => (release = done));
  let isHeld = true;
  await open.route("**/api/v1/connections", async (route) => {
    if (isHeld) {
      await held;
    }
    await route.continue();
  });
  await open.goto(`${daemon.base}/connections`);
  await expect(open.getByRole("status", { name: "Loading" })).toBeVisible();
  await draw(open, "loading");
  isHeld = false;
  release();
  await expect(open.getByRole("region", { name: "mainWiki" })).toBeVisible();
  await expect(open.getByRole("status", { name: "Loading" })).toBeHidden();
});

test("error: a missing automation shows its reason and code", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/automations/state-nowhere`);
  await expect(open.getByRole("alert")).toContainText("unknown_automation");
  await draw(open, "error");
  await expect(open.getByRole("button", { name: "Try again" })).toBeVisible();
});

test("session over: a sheet explains the login, the draft stays, and another tab may log in", async ({ stranger: open, daemon }) => {
  await login(open, daemon);
  await daemon.write("automations/state-session.yaml", MANUAL);
  await open.goto(`${daemon.base}/automations/state-session?tab=test`);
  await open.getByRole("button", { name: "+ New" }).click();
  await open.getByLabel("Payload", { exact: true }).fill('{"inputs": {"mine": 1}}');
  await endSession(open);
  // The next request ends the session of the page: this one, or the preview of the payload before it.
  await open.getByRole("button", { name: "Run", exact: true }).dispatchEvent("click");
  const sheet = open.getByRole("dialog", { name: "The session is over" });
  await expect(sheet.getByText("cogwork ui")).toBeVisible();
  await draw(open, "session over");
  await open.keyboard.press("Escape");
  await open.keyboard.press("Escape");
  await expect(sheet).toBeVisible();
  await login(await open.context().newPage(), daemon);
  await expect(sheet).toBeHidden();
  await expect(open.getByLabel("Payload", { exact: true })).toHaveValue('{"inputs": {"mine": 1}}');
});

test("session over: a late response of the old session does not end the new one", async ({ stranger: open, daemon }) => {
  await login(open, daemon);
  await open.goto(`${daemon.base}/connections`);
  await expect(open.getByRole("heading", { name: "Connections" })).toBeVisible();
  let answer = () => {};
  const held = new Promise<void>((done) => (answer = done));
  await open.route("**/api/v1/executions?*", async (route) => {
    const response = await route.fetch();
    if (response.status() === 401) {
      await held;
    }
    await route.fulfill({ response });
  });
  await endSession(open);
  const late = open.waitForResponse((response) => response.url().includes("/api/v1/executions?") && response.status() === 401);
  await open.getByRole("link", { name: "Executions" }).click();
  const sheet = open.getByRole("dialog", { name: "The session is over" });
  await expect(sheet).toBeVisible();
  await login(await open.context().newPage(), daemon);
  await expect(sheet).toBeHidden();
  answer();
  await (await late).finished();
  await open.getByRole("link", { name: "Connections" }).click();
  await expect(open.getByRole("heading", { name: "Connections" })).toBeVisible();
  await expect(sheet).toBeHidden();
});

test("disabled: the live URL is not offered, and the test URL works", async ({ open, daemon }) => {
  await daemon.write("automations/state-disabled.yaml", "enabled: false\ntrigger: {webhook: {mode: sync, verify: none}}\nsteps: [{set: {a: 1}}]\n");
  await open.goto(`${daemon.base}/automations/state-disabled?tab=test`);
  await expect(open.getByText("enable it to use this address")).toBeVisible();
  await draw(open, "disabled");
  expect((await daemon.send("state-disabled", {})).status).toBe(404);
  expect((await daemon.send("state-disabled", {}, "testUrl")).status).toBe(200);
  await expect(open.getByRole("region", { name: "Test executions" }).getByRole("listitem")).toHaveCount(1);
});

test("stale: the first error with its line, the active version and its time, and a read-only drawer", async ({ open, daemon }) => {
  const hook = (mode: string) => `trigger: {webhook: {mode: ${mode}, verify: none}}\nsteps: [{set: {a: 1}}]\n`;
  await daemon.write("automations/state-stale.yaml", hook("sync"));
  await daemon.write("automations/state-stale.yaml", hook("async").replace("steps", "stepz"));
  await open.goto(`${daemon.base}/automations/state-stale?tab=test&drawer=configure`);
  const banner = open.getByRole("alert");
  await expect(banner).toContainText(/2:1 .*stepz.*Version [0-9a-f]{6} of .*\d\d:\d\d.* is in force/);
  await expect(open.getByText(/Read-only: this is the trigger of version [0-9a-f]{6}/)).toBeVisible();
  await expect(open.getByRole("radio", { name: /^synchronous/ })).toBeChecked();
  await expect(open.getByRole("radio", { name: /^asynchronous/ })).toBeDisabled();
  await expect(open.getByRole("button", { name: "Change trigger…" })).toBeDisabled();
  await banner.getByRole("button", { name: "Go to line 2" }).click();
  await expect(open.getByRole("textbox", { name: "Text of the file" })).toBeFocused();
  await expect(open.getByRole("region", { name: "Problems" })).toContainText("stepz");
  await draw(open, "stale");
  await daemon.write("automations/state-stale.yaml", MANUAL);
});

test("listening: nothing captured, then ended", async ({ open, daemon }) => {
  await daemon.write("automations/state-listen.yaml", "trigger: {webhook: {verify: none}}\nsteps: [{set: {a: 1}}]\n");
  await open.goto(`${daemon.base}/automations/state-listen?tab=test`);
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByRole("timer")).toContainText(/\d\d:\d\d left/);
  await expect(open.getByText("Nothing was captured yet.")).toBeVisible();
  await expect(open.getByText("curl -i -X POST")).toBeVisible();
  await draw(open, "listening, nothing captured");
  await open.getByRole("button", { name: "Exit listening mode" }).click();
  await expect(open.getByText("The last session captured nothing.")).toBeVisible();
});

test("signature rejected: the reason, the 401 as sent, and a saved payload without verification", async ({ open, daemon }) => {
  mkdirSync(join(daemon.folder, "secrets"), { recursive: true });
  writeFileSync(join(daemon.folder, "secrets/stateHook"), "a secret of this test");
  await daemon.write("automations/state-signed.yaml", SIGNED);
  await open.goto(`${daemon.base}/automations/state-signed?tab=test`);
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByRole("timer")).toBeVisible();
  expect((await daemon.send("state-signed", { n: 1 }, "testUrl")).status).toBe(401);
  const listening = open.getByRole("region", { name: "Listening" });
  await expect(listening.getByText("signature rejected")).toBeVisible();
  await expect(listening.getByText("the header with the signature or token is missing")).toBeVisible();
  await expect(listening.getByText("401").first()).toBeVisible();
  await expect(listening.getByText("Run does not verify a signature")).toBeVisible();
  await draw(open, "signature rejected");
  await listening.getByRole("button", { name: "Run now" }).click();
  await expect(open.getByRole("region", { name: "Test executions" }).getByText("The execution succeeded")).toBeVisible();
});

test("sync time-out: the verdict names the 504 and the step still running", async ({ open, daemon }) => {
  const text = "trigger: {webhook: {mode: sync, timeout: 1s, verify: none}}\nsteps: [{wait: 1h}]\n";
  await daemon.write("automations/state-timeout.yaml", text);
  expect((await daemon.send("state-timeout", {})).status).toBe(504);
  const { executions } = (await daemon.api("GET", "/executions?automation=state-timeout&limit=1")) as { executions: { id: string }[] };
  await open.goto(`${daemon.base}/executions/${executions[0]?.id}`);
  await expect(open.getByText(/The caller got 504 after 1\.\d s, the timeout of the webhook; the execution goes on/)).toBeVisible();
  await expect(open.getByRole("link", { name: "The setting timeout" })).toHaveAttribute("href", /drawer=configure/);
  await expect(open.getByText("Waits at step")).toBeVisible();
  await draw(open, "sync time-out");
  await daemon.api("POST", `/executions/${executions[0]?.id}/cancel`, {});
});

test("secret missing: its name, and Set", async ({ open, daemon }) => {
  await daemon.write("automations/state-secret.yaml", SIGNED.replace("stateHook", "stateMissing"));
  await open.goto(`${daemon.base}/automations/state-secret?tab=test`);
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByRole("timer")).toBeVisible();
  expect((await daemon.send("state-secret", {}, "testUrl")).status).toBe(401);
  await expect(open.getByRole("region", { name: "Listening" }).getByText(/stateMissing/).first()).toBeVisible();
  await draw(open, "secret missing");
  await open.getByRole("link", { name: "Set the secret stateMissing" }).click();
  await expect(open.getByLabel("Name of the secret")).toHaveValue("stateMissing");
});

test("subscription failed: the error of the service, the next attempt, and Try now", async ({ open, daemon }) => {
  await daemon.write("connections/state-hub.yaml", 'type: github.token\nwith: {host: "http://127.0.0.1:1", token: t}\n');
  const text = "enabled: false\ntrigger: {event: github.push, connection: state-hub, with: {owner: acme, repo: shop}}\nsteps: []\n";
  await daemon.write("automations/state-event.yaml", text);
  await open.goto(`${daemon.base}/automations/state-event?tab=test`);
  await expect(open.getByText("a subscription for the test address is made at the other application")).toBeVisible();
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByText("The subscription could not be made")).toBeVisible({ timeout: 20_000 });
  await draw(open, "hook creation failed");
  const failures = async () => {
    const { subscriptions } = (await daemon.api("GET", "/subscriptions")) as { subscriptions: { automation: string; failures: number }[] };
    return subscriptions.find(({ automation }) => automation === "state-event")?.failures ?? 0;
  };
  const before = await failures();
  await open.getByRole("button", { name: "Try now" }).click();
  await expect.poll(failures).toBeGreaterThan(before);
  await open.getByRole("link", { name: "Status" }).click();
  await expect(open.getByRole("row", { name: /state-event/ })).toContainText("pending");
  const row = open.getByRole("row").filter({ hasText: "could not be made" });
  await expect(row).toContainText("cannot be reached");
  await expect(row.getByRole("button", { name: "Try now" })).toBeVisible();
  await daemon.api("DELETE", "/automations/state-event/listen");
});

test("subscription that cannot be cancelled: since when, why, and how to forget it", async ({ open, daemon }) => {
  // The other application takes the subscription, and refuses its removal.
  const hub = createServer((request, response) => {
    response.writeHead(request.method === "POST" ? 201 : request.method === "DELETE" ? 403 : 200, { "content-type": "application/json" });
    response.end(request.method === "POST" ? '{"id": 7}' : request.method === "DELETE" ? '{"message": "Not yours"}' : "[]");
  });
  await new Promise<void>((done) => hub.listen(0, "127.0.0.1", done));
  const host = `http://127.0.0.1:${(hub.address() as AddressInfo).port}`;
  await daemon.write("connections/state-left.yaml", `type: github.token\nwith: {host: "${host}", token: t}\n`);
  const text = "trigger: {event: github.push, connection: state-left, with: {owner: acme, repo: shop}}\nsteps: []\n";
  await daemon.write("automations/state-leaving.yaml", text);
  const state = async () => {
    const { subscriptions } = (await daemon.api("GET", "/subscriptions")) as { subscriptions: { automation: string; state: string; error?: string }[] };
    const found = subscriptions.find(({ automation }) => automation === "state-leaving");
    return found && `${found.state}${found.error ? " failed" : ""}`;
  };
  await expect.poll(state).toBe("active");
  await daemon.remove("automations/state-leaving.yaml");
  await expect.poll(state).toBe("leaving failed");
  await open.goto(`${daemon.base}/status`);
  await expect(open.getByRole("row", { name: /state-leaving/ })).toContainText("leaving");
  await expect(open.getByRole("row", { name: /state-leaving/ })).toContainText("(deleted)");
  await expect(open.getByRole("link", { name: "state-leaving" })).toHaveCount(0);
  const row = open.getByRole("row").filter({ hasText: "to take it back failed" });
  await expect(row).toContainText(/no longer wanted \(since: .*\d+\s+attempts? to take it back failed: .*Not yours/);
  // The daemon retries on its own too, so that the number may be greater by more than one.
  const attempts = async () => Number(/(\d+)\s+attempts? to take/.exec((await row.textContent()) ?? "")?.[1]);
  const before = await attempts();
  await row.getByRole("button", { name: "Try now" }).click();
  await expect.poll(attempts).toBeGreaterThan(before);
  await row.getByRole("button", { name: "Forget …" }).click();
  await expect(row).toContainText("its id there is 7");
  await draw(open, "hook creation failed", "taken back");
  await row.getByRole("button", { name: "Forget it" }).click();
  await expect(row).toHaveCount(0);
  expect(await state()).toBeUndefined();
  hub.close();
});

test("waiting for a turn: who holds it, since when, and how many are ahead", async ({ open, daemon }) => {
  const text = 'trigger: {manual: {}}\nconcurrency: {key: "\'one\'", limit: 1}\nsteps: [{wait: 1h}]\n';
  await daemon.write("automations/state-turn.yaml", text);
  const start = async () => ((await daemon.api("POST", "/automations/state-turn/run", {})) as { executionId: string }).executionId;
  const first = await start();
  const second = await start();
  await open.goto(`${daemon.base}/executions/${second}`);
  await expect(open.locator("main")).toContainText(/Waits for its turn with the concurrency key 'one' since .*\d\d:\d\d.*: it is the next one/);
  await expect(open.locator("main")).toContainText(first.slice(0, 8));
  await draw(open, "waiting for a turn");
  await daemon.api("POST", `/executions/${second}/cancel`, {});
  await daemon.api("POST", `/executions/${first}/cancel`, {});
});

/** A system that answers as `answer` decides. */
async function peer(answer: (count: number) => { status: number; headers?: Record<string, string> } | undefined): Promise<{ base: string; server: Server }> {
  let count = 0;
  const server = createServer((_, response) => {
    const now = answer((count += 1));
    if (now) {
      response.writeHead(now.status, { "content-type": "application/json", ...now.headers });
      response.end("{}");
    }
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return { base: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}
const request = (base: string) => `trigger: {manual: {}}\nsteps:\n  - {id: get, action: http.request, with: {method: GET, url: "${base}/"}}\n`;

test("waiting for a slot: how many are ahead", async ({ stranger: page }) => {
  const own = await new Daemon().start({ COGWORK_LIMITS_IN_FLIGHT: "1" });
  const silent = await peer(() => undefined);
  try {
    await own.write("automations/state-slot.yaml", request(silent.base));
    const start = async () => ((await own.api("POST", "/automations/state-slot/run", {})) as { executionId: string }).executionId;
    await start();
    const [second, third] = [await start(), await start()];
    await login(page, own);
    await page.goto(`${own.base}/executions/${third}`);
    await expect(page.getByText(/Waits for a slot of the daemon since .*: 1 before it\./)).toBeVisible();
    await draw(page, "waiting for a slot");
    await page.goto(`${own.base}/executions/${second}`);
    await expect(page.getByText(/Waits for a slot of the daemon since .*: it is the next one\./)).toBeVisible();
  } finally {
    silent.server.closeAllConnections();
    silent.server.close();
    await own.stop();
  }
});

test("waiting for a host: the host that sent Retry-After, and how long that took", async ({ open, daemon }) => {
  // The host responds to one execution with a wait of a second, and another execution that calls it meanwhile waits too.
  const busy = await peer((count) => (count === 1 ? { status: 429, headers: { "retry-after": "1" } } : { status: 200 }));
  await daemon.write("automations/state-host.yaml", request(busy.base));
  await daemon.run("state-host", {});
  const id = await daemon.run("state-host", {});
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(open.getByText(/waited .* for the host 127\.0\.0\.1/)).toBeVisible();
  await draw(open, "waiting for a host");
  busy.server.close();
});

test("cleared by age: a deleted execution names the retention setting", async ({ stranger: page }) => {
  const own = await new Daemon().start();
  try {
    await own.write("automations/state-kept.yaml", `${MANUAL}retention: {count: 1}\n`);
    const first = await own.run("state-kept", {});
    const second = await own.run("state-kept", {});
    // The rules are applied when the daemon starts.
    await own.kill();
    await own.serve();
    await expect.poll(async () => ((await own.api("GET", "/executions?automation=state-kept")) as { executions: unknown[] }).executions.length).toBe(1);
    await login(page, own);
    await page.goto(`${own.base}/executions/${first}`);
    await expect(page.getByRole("heading", { level: 1 })).toContainText("is not there");
    await expect(page.getByRole("alert")).toContainText("unknown_execution");
    await expect(page.getByText("retention.days")).toBeVisible();
    await draw(page, "cleared by age");
    await page.getByRole("link", { name: "All executions" }).click();
    await expect(page.getByRole("heading", { name: "Executions" })).toBeVisible();
    await page.goto(`${own.base}/executions/${second}`);
    await expect(page.getByText(/Succeeded after/)).toBeVisible();
  } finally {
    await own.stop();
  }
});

test("masked: a secret in a request is three stars, in the capture and in the saved payload", async ({ open, daemon }) => {
  mkdirSync(join(daemon.folder, "secrets"), { recursive: true });
  writeFileSync(join(daemon.folder, "secrets/stateHook"), "a secret of this test");
  await daemon.write("automations/state-masked.yaml", SIGNED);
  await open.goto(`${daemon.base}/automations/state-masked?tab=test`);
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByRole("timer")).toBeVisible();
  await daemon.send("state-masked", { said: "a secret of this test" }, "testUrl");
  await expect(open.getByText("signature rejected")).toBeVisible();
  await expect(open.getByText('"***"').first()).toBeVisible();
  await draw(open, "masked");
  expect(await open.content()).not.toContain("a secret of this test");
});

test("offline: a bar says so, loaded data stays, and controls that write are disabled", async ({ stranger: page }) => {
  const own = await new Daemon().start();
  try {
    await own.write("automations/state-offline.yaml", "trigger: {webhook: {verify: none}}\nsteps: [{set: {a: 1}}]\n");
    await own.api("PUT", "/automations/state-offline/payloads/first", {});
    await login(page, own);
    await page.goto(`${own.base}/automations/state-offline?tab=test`);
    await expect(page.getByRole("button", { name: "Run first" })).toBeEnabled();
    await own.kill();
    await expect(page.getByText("Not connected to the daemon")).toBeVisible({ timeout: 20_000 });
    await expect(page.getByRole("button", { name: "Run first" })).toBeDisabled();
    await expect(page.getByRole("button", { name: "Enter listening mode" })).toBeDisabled();
    await expect(page.getByRole("button", { name: "Disable" })).toBeDisabled();
    await expect(page.getByRole("button", { name: "Disable" })).toHaveAttribute("title", "the daemon does not answer");
    for (const [menu, entry] of [["More of first", "Delete …"], ["More of first", "Edit …"], ["More actions", "Delete …"]] as const) {
      await page.getByRole("button", { name: menu }).click();
      await expect(page.getByRole("menuitem", { name: entry })).toHaveAttribute("aria-disabled", "true");
      await expect(page.getByRole("menuitem", { name: entry })).toHaveAttribute("title", "the daemon does not answer");
      await page.keyboard.press("Escape");
    }
    await draw(page, "offline");
    await own.serve();
    await expect(page.getByRole("button", { name: "Run first" })).toBeEnabled({ timeout: 40_000 });
  } finally {
    await own.stop();
  }
});

test("a payload is written, run and inspected by keyboard alone", async ({ open, daemon }) => {
  await daemon.write("automations/state-keys.yaml", "trigger: {webhook: {mode: sync, verify: none}}\nsteps: [{set: {a: 1}}]\n");
  await open.goto(`${daemon.base}/automations/state-keys?tab=test`);
  await open.getByRole("button", { name: "+ New" }).focus();
  await open.keyboard.press("Enter");
  await expect(open.getByRole("dialog")).toBeVisible();
  for (let count = 0; count < 40 && !(await open.getByRole("textbox", { name: "Body" }).evaluate((area) => area === document.activeElement)); count += 1) {
    await open.keyboard.press("Tab");
  }
  await open.keyboard.press("Control+a");
  await open.keyboard.type('{"by": "keyboard"}');
  const run = open.getByRole("dialog").getByRole("button", { name: "Run", exact: true });
  for (let count = 0; count < 80 && !(await run.evaluate((button) => button === document.activeElement)); count += 1) {
    await open.keyboard.press("Tab");
  }
  await open.keyboard.press("Enter");
  await expect(open.getByRole("region", { name: "Test executions" }).getByText("The execution succeeded")).toBeVisible();
  await expect(open.getByRole("dialog")).toBeHidden();
});
