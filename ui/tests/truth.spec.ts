/** The pages show the actual data: answers, last executions, waits, durations, secrets, copied paths, bars and turns. */

import type { Page } from "@playwright/test";

import { type Daemon, expect, test } from "./harness";

test.use({ own: "truth" });

const ASKS = `name: Delete a customer
trigger: {manual: {}}
inputs: {customer: {type: text, required: true}}
steps:
  - id: ask
    waitFor: {approval: {message: "Delete customer \${{ inputs.customer }}?", options: ["yes", "no"]}}
`;
const QUICK = "trigger: {manual: {}}\nsteps: [{id: said, set: {x: 1}}]\n";

const row = (page: Page, name: string | RegExp) => page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
const timeline = (page: Page) => page.getByRole("region", { name: "Timeline" });
const inspector = (page: Page) => page.getByRole("region", { name: "Inspector" });
const box = (page: Page, step: string) => page.getByRole("tree", { name: "Steps" }).locator(`[role=treeitem][data-step="${step}"]`);

/** Starts an automation and waits until it is in a state. Returns its id. */
async function start(daemon: Daemon, automation: string, body: unknown, status: string): Promise<string> {
  const { executionId } = (await daemon.api("POST", `/automations/${automation}/run`, body)) as { executionId: string };
  await expect
    .poll(async () => ((await daemon.api("GET", `/executions/${executionId}`)) as { status: string }).status)
    .toBe(status);
  return executionId;
}

test("a double click in the inbox answers one question, which stays until the pointer leaves", async ({ open, daemon }) => {
  await daemon.write("automations/asks.yaml", ASKS);
  const ids: string[] = [];
  for (const customer of ["1", "2", "3"]) {
    ids.push(await start(daemon, "asks", { inputs: { customer } }, "waiting"));
  }
  await open.goto(`${daemon.base}/inbox`);
  const cards = open.getByRole("form", { name: "Question of Delete a customer" });
  await expect(cards).toHaveCount(3);
  const yes = cards.first().getByRole("button", { name: "yes" });
  const place = await yes.boundingBox();
  const [x, y] = [(place?.x ?? 0) + 5, (place?.y ?? 0) + 5];
  await open.mouse.click(x, y);
  await expect(cards.first().getByRole("status")).toContainText("Answered yes by web UI");
  const statuses = () =>
    Promise.all(ids.map(async (id) => ((await daemon.api("GET", `/executions/${id}`)) as { status: string }).status));
  await expect.poll(statuses).toEqual(["waiting", "waiting", "succeeded"]);
  await open.mouse.click(x, y);
  await open.mouse.click(x, y);
  await expect(cards).toHaveCount(3);
  await expect(cards.first()).toContainText("Delete customer 3?");
  expect(await statuses()).toEqual(["waiting", "waiting", "succeeded"]);
  // A new question does not push the others away either.
  await start(daemon, "asks", { inputs: { customer: "4" } }, "waiting");
  await expect(cards).toHaveCount(4);
  await expect(cards.last()).toContainText("Delete customer 4?");
  await open.mouse.move(5, 5);
  await expect(cards).toHaveCount(3);
  await expect(cards.first()).toContainText("Delete customer 4?");
  const answers = open.getByRole("region", { name: "Answers" });
  await expect(answers.getByRole("row").nth(1)).toContainText("Delete customer 3?");
  await expect(answers.getByRole("row").nth(1)).toContainText("yes");
  await open.reload();
  await expect(answers.getByRole("row").nth(1)).toContainText("web UI");
});

test("a question answered by another user keeps its place and names them", async ({ open, daemon }) => {
  await daemon.write("automations/asks-two.yaml", ASKS.replace("Delete a customer", "Asks two"));
  const id = await start(daemon, "asks-two", { inputs: { customer: "9" } }, "waiting");
  const other = await start(daemon, "asks-two", { inputs: { customer: "9" } }, "waiting");
  for (const [path, asked] of [["/inbox", other], [`/executions/${id}`, id]] as const) {
    await open.goto(daemon.base + path);
    const card = open.getByRole("form", { name: "Question of Asks two" }).first();
    await card.hover();
    await daemon.api("POST", `/executions/${asked}/signal`, { step: "ask", option: "no", by: "Ada" });
    await expect(card.getByRole("status")).toContainText("Answered no by Ada");
    await expect(card).toContainText("Delete customer 9?");
  }
});

test("the last execution of an automation is found behind many others", async ({ open, daemon }) => {
  await daemon.write("automations/alone.yaml", QUICK);
  await daemon.write("automations/busy.yaml", QUICK);
  const id = await daemon.run("alone", {});
  for (let round = 0; round < 21; round += 1) {
    await Promise.all(Array.from({ length: 10 }, () => daemon.run("busy", {})));
  }
  await open.goto(`${daemon.base}/?q=alone`);
  await expect(row(open, "alone").locator(".last a")).toHaveAttribute("href", `/executions/${id}`);
  await open.goto(daemon.base);
  await row(open, "alone").scrollIntoViewIfNeeded();
  await expect(row(open, "alone").locator(".last a")).toHaveAttribute("href", `/executions/${id}`);
});

test("a short pause is a wait: in the head, in its row and in the block around it", async ({ open, daemon }) => {
  await daemon.write("automations/naps.yaml", "trigger: {manual: {}}\nsteps:\n  - id: both\n    parallel:\n      a: [{id: nap, wait: 300ms}]\n      b: [{id: doze, wait: 200ms}]\n");
  const id = await daemon.run("naps", {});
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(open.getByText(/worked [\d.]+ (µs|ms), waited (2[5-9]\d|[3-9]\d\d) ms/)).toBeVisible();
  for (const step of ["nap", "doze", "both"]) {
    const bars = timeline(open).getByRole("button", { name: new RegExp(`^(Succeeded )?${step}`) });
    await expect(bars.locator(".segment.next").first()).toBeVisible();
  }
});

test("a duration is the same in the list of automations, the list of executions and the page, also after a restart", async ({ open, daemon }) => {
  await daemon.write("automations/steady.yaml", "trigger: {manual: {}}\nsteps: [{id: nap, wait: 120ms}]\n");
  const id = await daemon.run("steady", {});
  const { tookMs } = (await daemon.api("GET", `/executions/${id}`)) as { tookMs: number };
  const shown = `${Math.round(tookMs)} ms`;
  await open.goto(`${daemon.base}/executions?automation=steady`);
  await expect(open.getByRole("row").last()).toContainText(shown);
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(open.getByText(`Succeeded after ${shown}.`)).toBeVisible();
  await open.goto(`${daemon.base}/?q=steady`);
  const p95 = row(open, "steady").locator(".p95");
  await expect(p95).toContainText("ms");
  const before = await p95.textContent();
  expect(Math.abs(Number.parseFloat(before ?? "") / tookMs - 1)).toBeLessThan(0.05);
  await daemon.kill();
  await daemon.serve();
  await open.goto(`${daemon.base}/?q=steady`);
  await expect(p95).toHaveText(before ?? "");
});

test("an automation whose trigger lacks a secret says so until the secret is set", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/?q=chat-mentions`);
  await expect(open.getByRole("row").last()).toContainText("No secret");
  await expect(open.getByRole("row").last()).toContainText("needs slackSigning");
  await open.getByLabel("State").selectOption("needsSecret");
  await expect(open.getByRole("row")).toHaveCount(2);
  await open.goto(`${daemon.base}/automations/chat-mentions`);
  await expect(open.getByText(/The secret slackSigning\s+is not set: every request to its address is refused, so nothing starts this automation/)).toBeVisible();
  await expect(open.locator("button.trigger")).toContainText("needs slackSigning");
  await open.goto(`${daemon.base}/connections`);
  const secret = open.getByRole("row").filter({ hasText: "slackSigning" });
  await expect(secret).toContainText(/missing,\s+needed by Chat mentions/);
  await expect(open.getByRole("row").filter({ hasText: "wikiToken" })).toContainText("the environment");
  await secret.getByRole("button", { name: "Set slackSigning" }).click();
  await open.getByLabel("Value of the secret").fill("hush");
  await open.getByRole("button", { name: "Set", exact: true }).click();
  await expect(secret).toContainText("store");
  await open.goto(`${daemon.base}/automations/chat-mentions`);
  await expect(open.getByText("Active")).toBeVisible();
  await daemon.api("DELETE", "/secrets/slackSigning");
});

test("the path that is copied from a trigger exists", async ({ open, daemon }) => {
  await daemon.write("automations/takes.yaml", "trigger: {webhook: {mode: sync, verify: none}}\nsteps: [{id: out, set: {rows: \"${{ trigger.results.body.data.rows }}\"}}]\n");
  const answer = await daemon.send("takes", { rows: [{ id: 7 }] });
  await open.goto(`${daemon.base}/executions/${answer.headers.get("x-execution-id")}?step=trigger`);
  const request = inspector(open).getByRole("tree", { name: "Request" });
  await expect(request.getByRole("treeitem").filter({ hasText: "kind" })).toHaveCount(0);
  await request.getByRole("treeitem").filter({ hasText: "method" }).click();
  await expect(inspector(open).getByRole("button", { name: "${{ trigger.results.method }}" })).toBeVisible();
  await inspector(open).getByRole("tree", { name: "File" }).getByRole("treeitem").filter({ hasText: "rows" }).click();
  await expect(inspector(open).getByRole("button", { name: "${{ trigger.results.body.data.rows }}" })).toBeVisible();
});

test("the scrubber draws the bars as of its time", async ({ open, daemon }) => {
  await daemon.write("automations/pure.yaml", "trigger: {manual: {}}\nsteps:\n  - {id: a, set: {x: 1}}\n  - {id: b, set: {y: 2}}\n  - {id: c, wait: 60ms}\n");
  const id = await daemon.run("pure", {});
  const { events } = (await daemon.api("GET", `/executions/${id}`)) as { events: number };
  const bars = async (event: string) => {
    await open.goto(`${daemon.base}/executions/${id}${event}`);
    const found = [];
    for (const step of ["a", "b"]) {
      const line = timeline(open).getByRole("button", { name: new RegExp(`${step}$|${step} `) }).first();
      found.push((await line.getByRole("img").last().getAttribute("aria-label")) ?? "");
    }
    return found;
  };
  const atEnd = await bars("");
  expect(await bars(`?event=${events - 1}`)).toEqual(atEnd);
});

test("an execution waiting for a permit is queued, with its wait in the timeline", async ({ open, daemon }) => {
  await daemon.write("automations/one-by-one.yaml", "trigger: {manual: {}}\nconcurrency: {limit: 1}\nsteps: [{id: rest, wait: 1h}]\n");
  const first = await start(daemon, "one-by-one", {}, "waiting");
  const second = await start(daemon, "one-by-one", {}, "queued");
  await open.goto(`${daemon.base}/executions/${second}`);
  await expect(open.locator(".head").getByText("Queued")).toBeVisible();
  await expect(timeline(open).locator(".segment.queue")).toBeVisible();
  await expect(timeline(open)).toContainText(/has waited .* for its turn/);
  await open.goto(`${daemon.base}/executions?automation=one-by-one&status=queued`);
  await expect(open.getByRole("row")).toHaveCount(2);
  await expect(open.getByRole("row").last()).toContainText("Queued");
  for (const id of [second, first]) {
    await daemon.api("POST", `/executions/${id}/cancel`, {});
  }
});

test("a block whose steps wait is drawn as waiting", async ({ open, daemon }) => {
  await daemon.write("automations/branches.yaml", "trigger: {manual: {}}\nsteps:\n  - id: both\n    parallel:\n      a: [{id: long, wait: 1h}]\n      b: [{id: longer, wait: 2h}]\n");
  const id = await start(daemon, "branches", {}, "waiting");
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(box(open, "both").first()).not.toHaveClass(/unrun/);
  await expect(box(open, "both").getByRole("img", { name: "Waiting" }).first()).toBeVisible();
  await daemon.api("POST", `/executions/${id}/cancel`, {});
});

test("the palette prefers the automation of the open page", async ({ open, daemon }) => {
  await daemon.write("automations/zz-last.yaml", QUICK);
  const id = await daemon.run("zz-last", {});
  for (const path of ["/automations/zz-last", `/executions/${id}`]) {
    await open.goto(daemon.base + path);
    await expect(open.getByRole("tree", { name: "Steps" })).toBeVisible();
    await open.keyboard.press("Control+k");
    await open.keyboard.type("run");
    await expect(open.getByRole("listbox", { name: "Places and actions" }).getByRole("option").first()).toContainText("Run zz-last");
    await open.keyboard.press("Enter");
    await expect(open).toHaveURL(/automations\/zz-last\?tab=test/);
  }
});

test("a replay from a step with an edited request lists the kept results", async ({ open, daemon }) => {
  const steps = "  - {id: items, set: {all: \"${{ trigger.results.body.data.n }}\"}}\n  - {id: after, set: {n: \"${{ trigger.results.body.data.n }}\"}}\n";
  await daemon.write("automations/mixes.yaml", `trigger: {webhook: {mode: sync, verify: none}}\nsteps:\n${steps}`);
  const answer = await daemon.send("mixes", { n: 1 });
  await open.goto(`${daemon.base}/executions/${answer.headers.get("x-execution-id")}?step=after`);
  await open.getByRole("button", { name: "Replay…" }).click();
  const sheet = open.getByRole("dialog");
  await expect(sheet).toContainText(/1 step keeps its result and does not run again:\s+items\./);
  await expect(sheet.getByText(/The result that step items\s+keeps was made from the recorded request/)).toBeHidden();
  await sheet.getByText("Edit the request").click();
  await sheet.locator("textarea").last().fill('{"n": 2}');
  await expect(sheet.getByText(/The result that step items\s+keeps was made from the recorded request/)).toBeVisible();
  await sheet.getByRole("button", { name: "Begin at the start" }).click();
  await expect(sheet.getByText(/The result that step items\s+keeps was made from the recorded request/)).toBeHidden();
});

test("the verdict names the cause behind the circuit breaker", async ({ open, daemon }) => {
  const call = "  - {id: get, action: http.request, with: {method: GET, url: \"http://127.0.0.1:1/\"}}\n";
  await daemon.write("automations/closed.yaml", `trigger: {manual: {}}\nsteps:\n${call}`);
  let id = "";
  for (let count = 0; count < 21; count += 1) {
    id = await daemon.run("closed", {});
  }
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(open.locator(".verdict")).toContainText(/is not called until 20\S+Z: the last \d+ calls failed; the last one: .*refused/i);
});

test("a folded loop row shows each iteration with its own status", async ({ open, daemon }) => {
  const turn = "      - {id: gap, wait: 60ms}\n      - {id: page, steps: [{id: end, if: \"item == 2\", fail: no paper}]}\n";
  const text = `trigger: {manual: {}}\nsteps:\n  - id: each\n    forEach: "[1, 2]"\n    failFast: false\n    steps:\n${turn}`;
  await daemon.write("automations/turns.yaml", text);
  const id = await daemon.run("turns", {});
  await open.goto(`${daemon.base}/executions/${id}`);
  const bars = timeline(open).getByRole("button", { name: /page/ }).locator(".segment.work");
  await expect(bars.first()).toHaveClass(/succeeded/);
  await expect(bars.last()).toHaveClass(/failed/);
});
