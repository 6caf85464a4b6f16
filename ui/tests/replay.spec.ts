/** Replays: one from a step, two executions compared, many at once. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

import { expect, test } from "./harness";

/** Another system that fails or answers as the test decides, and counts its requests. */
class Peer {
  readonly lines: string[] = [];
  fails = true;
  private server: Server | undefined;
  base = "";

  async start(): Promise<this> {
    this.server = createServer((request, response) => {
      const path = request.url ?? "";
      this.lines.push(path);
      const status = path === "/save" && this.fails ? 500 : 200;
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify({ path, number: this.lines.length }));
    });
    await new Promise<void>((done) => this.server?.listen(0, "127.0.0.1", done));
    this.base = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
    return this;
  }

  stop(): void {
    this.server?.close();
  }
}

const text = (base: string) => `trigger: {manual: {}}
inputs: {name: {}}
steps:
  - id: load
    action: http.request
    with: {method: POST, url: "${base}/load"}
  - id: save
    action: http.request
    with: {method: POST, url: "${base}/save"}
  - id: done
    set: {name: "\${{ inputs.name }}"}
`;

test("a failed execution is replayed from its failed step, and the two are compared", async ({ open: page, daemon }) => {
  const peer = await new Peer().start();
  await daemon.write("automations/replayed.yaml", text(peer.base));
  const failed = await daemon.run("replayed", { inputs: { name: "first" } });
  expect(peer.lines).toEqual(["/load", "/save"]);
  peer.fails = false;

  await page.goto(`${daemon.base}/executions/${failed}`);
  await page.getByRole("button", { name: "Replay…" }).click();
  const sheet = page.getByRole("dialog", { name: /^Replay/ });
  // The sheet begins at the step that failed, and says what is called again.
  await expect(sheet.getByLabel("Begin")).toHaveValue("save");
  await expect(sheet.getByText("This really calls other systems")).toBeVisible();
  await expect(sheet.getByRole("row", { name: /save http\.request writes again/ })).toBeVisible();
  await expect(sheet.getByRole("row", { name: /^load/ })).toHaveCount(0);
  await sheet.getByRole("button", { name: "Replay", exact: true }).click();

  await expect(page).not.toHaveURL(new RegExp(failed));
  await expect(page.getByText(/Replay of .*, from\s+step save/)).toBeVisible();
  expect(peer.lines).toEqual(["/load", "/save", "/save"]);
  await page.getByRole("link", { name: "Compare" }).click();
  await expect(page).toHaveURL(new RegExp(`/executions/${failed}/compare/`));
  const steps = page.getByRole("list", { name: "Steps that differ" });
  await expect(steps.getByText("save", { exact: true })).toBeVisible();
  await expect(steps.getByText("load", { exact: true })).toHaveCount(0);
  peer.stop();
});

test("a recorded request is edited by its parts before it is replayed", async ({ open: page, daemon }) => {
  const text = "trigger: {webhook: {mode: sync, verify: none}}\nsteps:\n  - {id: out, set: {q: \"${{ trigger.results.queryParameters.q }}\", at: \"${{ trigger.results.pathFragment }}\", n: \"${{ trigger.results.body.data.n }}\"}}\n";
  await daemon.write("automations/parts.yaml", text);
  await daemon.send("parts", { n: 1 });
  const { executions } = (await daemon.api("GET", "/executions?automation=parts&limit=1")) as { executions: { id: string }[] };
  await page.goto(`${daemon.base}/executions/${executions[0]?.id}`);
  await page.getByRole("button", { name: "Replay…" }).click();
  const sheet = page.getByRole("dialog", { name: /^Replay/ });
  await sheet.getByText("Edit the request").click();
  await expect(sheet.getByLabel("Method")).toHaveValue("POST");
  await expect(sheet.getByRole("textbox", { name: "Body" })).toHaveValue('{"n":1}');
  await sheet.getByLabel("Path fragment").fill("a/b");
  await sheet.getByRole("button", { name: "+ parameter" }).click();
  await sheet.getByLabel("parameter 1 name").fill("q");
  await sheet.getByLabel("parameter 1 value").fill("found");
  await sheet.getByRole("textbox", { name: "Body" }).fill('{"n": 2}');
  await sheet.getByRole("button", { name: "Replay", exact: true }).click();
  await expect(page).not.toHaveURL(new RegExp(executions[0]?.id ?? ""));
  const result = page.getByRole("tabpanel");
  await page.goto(page.url().replace(/\?.*|$/, "?step=out&tab=result"));
  await expect(result).toContainText("found");
  await expect(result).toContainText("a/b");
  await expect(result).toContainText("2");
});

test("a replay with an edited payload runs as a test", async ({ open: page, daemon }) => {
  await daemon.write("automations/greeting.yaml", "trigger: {manual: {}}\ninputs: {name: {}}\nsteps:\n  - id: greet\n    set: {hello: \"${{ inputs.name }}\"}\n");
  const first = await daemon.run("greeting", { inputs: { name: "Ada" } });
  await page.goto(`${daemon.base}/executions/${first}`);
  await page.getByRole("button", { name: "Replay…" }).click();
  const sheet = page.getByRole("dialog", { name: /^Replay/ });
  await expect(sheet.getByText("No step calls another system.")).toBeVisible();
  await sheet.getByText("Edit the inputs").click();
  await sheet.getByLabel("Edited inputs").fill('{"name": "Grace"}');
  await sheet.getByLabel("a test").check();
  await sheet.getByRole("button", { name: "Replay", exact: true }).click();
  await expect(page).not.toHaveURL(new RegExp(first));
  const id = new URL(page.url()).pathname.split("/").pop() ?? "";
  await expect.poll(async () => ((await daemon.api("GET", `/executions/${id}`)) as { outcome?: unknown }).outcome).toMatchObject({
    result: { hello: "Grace" },
  });
  await page.goto(`${daemon.base}/executions/${first}/compare/${id}`);
  await expect(page.getByText("payload.inputs.name")).toBeVisible();
});

test("a bulk replay lists repeated calls, shows its progress and can be stopped", async ({ open: page, daemon }) => {
  const peer = await new Peer().start();
  peer.fails = false;
  await daemon.write("automations/stopped.yaml", text(peer.base));
  await Promise.all(Array.from({ length: 20 }, () => daemon.run("stopped", {})));
  await page.goto(`${daemon.base}/executions?automation=stopped`);
  await page.getByRole("button", { name: "Replay 20…" }).click();
  const sheet = page.getByRole("dialog", { name: "Replay executions" });
  await expect(sheet.getByText("20 executions call other systems again.")).toBeVisible();
  await sheet.getByRole("button", { name: "Replay 20" }).click();
  await sheet.getByRole("button", { name: "Stop" }).click();
  await expect(sheet.getByRole("status")).toContainText("of 20 replayed, stopped");
  await expect(sheet.getByRole("progressbar")).toBeVisible();
  expect(peer.lines.length).toBeLessThan(80);
  peer.stop();
});

test("the executions of a bulk replay are counted first", async ({ open: page, daemon }) => {
  await daemon.write("automations/many.yaml", "trigger: {manual: {}}\nsteps:\n  - set: {a: 1}\n");
  for (let index = 0; index < 3; index += 1) {
    await daemon.run("many", {});
  }
  await page.goto(`${daemon.base}/executions?automation=many`);
  await page.getByRole("button", { name: "Replay 3…" }).click();
  const sheet = page.getByRole("dialog", { name: "Replay executions" });
  await expect(sheet.getByText("Replay 3 executions?")).toBeVisible();
  await sheet.getByRole("button", { name: "Replay 3" }).click();
  await expect(sheet.getByText("3 of 3 replayed")).toBeVisible();
  await sheet.getByText("Close", { exact: true }).click();
  await expect(page.getByRole("row")).toHaveCount(7);
});

test("a draft is tried on the chosen number of recorded executions, each with a comparison", async ({ open: page, daemon }) => {
  const peer = await new Peer().start();
  peer.fails = false;
  await daemon.write("automations/tried.yaml", text(peer.base));
  for (const name of ["first", "second", "third"]) {
    await daemon.run("tried", { inputs: { name } });
  }
  await page.goto(`${daemon.base}/automations/tried?tab=source`);
  const editor = page.getByRole("textbox", { name: "Text of the file" });
  const append = async (line: string) => {
    await editor.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type(line);
  };
  await append('  - {id: more, set: {a: "${{ inputs.name }}"}}');
  await page.getByRole("button", { name: "Save …" }).click();
  const number = page.getByLabel("Number of executions");
  await number.fill("51");
  await expect(page.getByText("Between 1 and 50 executions are tried.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Try on recorded executions" })).toBeDisabled();
  await number.fill("2");
  await page.getByRole("button", { name: "Try on recorded executions" }).click();
  await expect(page.getByText("2 differ", { exact: true })).toBeVisible();
  await expect(page.getByText("Nothing was called")).toBeVisible();
  const tried = page.getByRole("table", { name: "Tried executions" }).getByRole("row");
  await expect(tried).toHaveCount(3);
  await expect(tried.nth(1)).toContainText("another result · step more");

  await tried.nth(1).getByRole("button", { name: /^Compare/ }).click();
  const sheet = page.getByRole("dialog", { name: /with its trial$/ });
  await expect(sheet.getByRole("region", { name: "Trial", exact: true })).toContainText("2 calls answered from the record");
  await expect(sheet.getByRole("list", { name: "Steps that differ" })).toContainText('{"a":"third"}');
  await sheet.getByText("3 equal").click();
  await expect(sheet.getByRole("list", { name: "Equal steps" })).toContainText("save");
  await page.keyboard.press("Escape");
  await expect(sheet).toBeHidden();
  await expect(tried).toHaveCount(3);
  // The text goes on while the sheet is open: the next trial comes to a call that no record has an answer for.
  await append(`\n- {id: call, action: http.request, with: {method: POST, url: "${peer.base}/new"}}`);
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByText("2 new calls", { exact: true })).toBeVisible();
  await tried.nth(1).getByRole("button", { name: /^Compare/ }).click();
  await expect(sheet.getByText("would call http.request; the record has no answer")).toBeVisible();
  await expect(sheet.getByText(`${peer.base}/new`).first()).toBeVisible();
  expect(peer.lines).toHaveLength(6);
  peer.stop();
});

test("an execution is replayed on the draft from its own page", async ({ open: page, daemon }) => {
  await daemon.write("automations/tried-here.yaml", "trigger: {manual: {}}\nsteps:\n  - {id: out, set: {greeting: Hello}}\n");
  const id = await daemon.run("tried-here", {});
  await page.goto(`${daemon.base}/executions/${id}`);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Try on the draft …" }).click();
  const sheet = page.getByRole("dialog", { name: /^Try .* on the draft/ });
  await expect(sheet.getByText("This browser has no draft of")).toBeVisible();
  await expect(sheet.getByText("1 same")).toBeVisible();
  await sheet.getByRole("link", { name: "Edit" }).click();
  const editor = page.getByRole("textbox", { name: "Text of the file" });
  await editor.getByText("Hello").click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("  - {id: more, set: {x: 1}}\n");
  await expect(page.getByText("1 unsaved change")).toBeVisible();
  await page.getByRole("tab", { name: "Executions" }).click();
  await page.getByRole("row").nth(1).getByRole("link").first().click();
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Try on the draft …" }).click();
  await expect(sheet.getByText("The text is the draft of")).toBeVisible();
  await expect(sheet.getByText("1 differs")).toBeVisible();
  await sheet.getByRole("button", { name: /^Compare/ }).click();
  await expect(page.getByRole("dialog", { name: /with its trial$/ }).getByText("more", { exact: true })).toBeVisible();
  expect(((await daemon.api("GET", "/executions?automation=tried-here")) as { executions: unknown[] }).executions).toHaveLength(1);
});

test("an execution becomes a test with one click, which passes", async ({ open: page, daemon }) => {
  const peer = await new Peer().start();
  peer.fails = false;
  await daemon.write("automations/tested.yaml", text(peer.base));
  const id = await daemon.run("tested", { inputs: { name: "first" } });
  let drafts = 0;
  page.on("request", (request) => (drafts += request.url().endsWith("/tests/from-execution") ? 1 : 0));
  await page.goto(`${daemon.base}/executions/${id}`);
  await page.getByRole("button", { name: "Save as test…" }).click();
  const sheet = page.getByRole("dialog", { name: /as a test$/ });
  await expect(sheet.getByText("It passes, and calls nothing")).toBeVisible();
  await sheet.getByLabel("Name").fill("the first name is kept");
  await expect(sheet.locator("pre")).toContainText("the first name is kept");
  await sheet.getByRole("button", { name: "Write the test" }).click();
  await expect(sheet.getByText("The test is in")).toBeVisible();
  // One draft with the name of the execution, one with the typed name: a draft does not ask for the next one.
  expect(drafts).toBe(2);
  expect(daemon.command(["test", "automations/tested.test.yaml"])).toContain("1 passed");
  expect(peer.lines).toEqual(["/load", "/save"]);
  peer.stop();
});
