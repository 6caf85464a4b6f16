/** Integers beyond 2⁵³ are shown, edited, compared and sent with all their digits. */

import type { Page } from "@playwright/test";

import { type Daemon, expect, test } from "./harness";

/** The least integer that a number of JavaScript does not hold, and the largest one of the language. */
const ODD = "9007199254740993";
const LARGEST = "18446744073709551615";
/** An integer that only a text holds. The body of a request is a text. */
const HUGE = "123456789012345678901234567890";
const BODY = `{"id": ${ODD}, "huge": ${HUGE}}`;

const ECHO = `trigger: {webhook: {mode: sync, verify: none}}
steps:
  - {id: kept, set: {id: "\${{ trigger.results.body.data.id }}", largest: ${LARGEST}}}
  - {respond: {status: 200, json: {id: "\${{ vars.id }}"}}}
`;

/** Sends a text, which no client has parsed before. */
async function send(daemon: Daemon, automation: string, body: string, address: "liveUrl" | "testUrl" = "liveUrl"): Promise<string> {
  const found = (await daemon.api("GET", `/automations/${automation}`)) as Record<string, string>;
  const response = await fetch(found[address] ?? "", { method: "POST", headers: { "content-type": "application/json" }, body });
  return response.text();
}
/** The answer of the API as a text. */
async function read(page: Page, path: string): Promise<string> {
  return page.evaluate(async (address) => {
    const headers = { "x-cogwork-session": localStorage.getItem("cogwork-session") ?? "" };
    return (await fetch(`/api/v1${address}`, { headers })).text();
  }, path);
}
const latest = async (daemon: Daemon, automation: string) =>
  ((await daemon.api("GET", `/executions?automation=${automation}&limit=1`)) as { executions: { id: string }[] }).executions[0]?.id ?? "";

test("an execution shows them in its request, its results, its response and its expressions", async ({ open, daemon }) => {
  await daemon.write("automations/shown.yaml", ECHO);
  expect(await send(daemon, "shown", BODY)).toContain(ODD);
  await open.goto(`${daemon.base}/executions/${await latest(daemon, "shown")}?step=kept&tab=result`);
  const inspector = open.getByRole("tabpanel");
  await expect(inspector).toContainText(ODD);
  await expect(inspector).toContainText(LARGEST);
  await open.goto(`${daemon.base}/executions/${await latest(daemon, "shown")}?step=trigger`);
  await expect(open.locator("main")).toContainText(HUGE);
  await open.getByRole("tab", { name: "Response" }).click();
  await expect(inspector).toContainText(ODD);
});

test("a captured request is edited, saved, run and replayed with them", async ({ open, daemon }) => {
  await daemon.write("automations/captured.yaml", ECHO);
  await open.goto(`${daemon.base}/automations/captured?tab=test`);
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByRole("timer")).toBeVisible();
  await send(daemon, "captured", BODY, "testUrl");
  await open.getByRole("region", { name: "Listening" }).getByRole("button", { name: "Edit a copy" }).click();
  const sheet = open.getByRole("dialog", { name: "Configure payload" });
  const body = sheet.getByRole("textbox", { name: "Body" });
  await expect(body).toHaveValue(BODY);
  await expect(sheet.getByRole("region", { name: "What steps would read" })).toContainText(ODD);
  await body.fill(BODY.replace("}", `, "more": ${LARGEST}}`));
  await sheet.getByRole("textbox", { name: "Name", exact: true }).fill("digits");
  await sheet.getByRole("button", { name: "Save", exact: true }).click();
  await expect(sheet).toBeHidden();
  const saved = await read(open, "/automations/captured/payloads/digits");
  for (const digits of [ODD, HUGE, LARGEST]) {
    expect(saved).toContain(digits);
  }
  await open.getByRole("button", { name: "Run digits" }).click();
  await expect(open.getByRole("region", { name: "Test executions" }).getByText("The execution succeeded")).toBeVisible();
  const first = await latest(daemon, "captured");
  expect(await read(open, `/executions/${first}`)).toContain(HUGE);

  await open.goto(`${daemon.base}/executions/${first}`);
  await open.getByRole("button", { name: "Replay…" }).click();
  const replay = open.getByRole("dialog", { name: /^Replay/ });
  await replay.getByText("Edit the request").click();
  await expect(replay.getByRole("textbox", { name: "Body" })).toHaveValue(new RegExp(HUGE));
  await replay.getByRole("textbox", { name: "Body" }).fill(BODY.replace(ODD, "9007199254740995"));
  await replay.getByRole("button", { name: "Replay", exact: true }).click();
  await expect(open).not.toHaveURL(new RegExp(first));
  await open.getByRole("link", { name: "Compare" }).click();
  await expect(open.locator("main")).toContainText(ODD);
  await expect(open.locator("main")).toContainText("9007199254740995");
});

test("inputs of a person and of a replay, state, and fields of a form take them", async ({ open, daemon }) => {
  await daemon.write(
    "automations/typed.yaml",
    "trigger: {manual: {}}\ninputs: {n: {type: integer}, any: {type: any}}\nsteps:\n  - {id: kept, set: {n: \"${{ inputs.n }}\", any: \"${{ inputs.any }}\"}}\n",
  );
  await open.goto(`${daemon.base}/automations/typed?tab=test`);
  await open.getByRole("spinbutton", { name: "n", exact: true }).fill(ODD);
  await open.getByRole("textbox", { name: "any", exact: true }).fill(`{"deep": [${LARGEST}]}`);
  await open.getByRole("button", { name: "Run now" }).click();
  await expect(open.getByRole("region", { name: "Test executions" }).getByText("The execution succeeded")).toBeVisible();
  const first = await latest(daemon, "typed");
  expect(await read(open, `/executions/${first}`)).toMatch(new RegExp(`"n":${ODD}.*"deep":\\[${LARGEST}\\]`));
  await open.goto(`${daemon.base}/executions/${first}`);
  await open.getByRole("button", { name: "Replay…" }).click();
  const replay = open.getByRole("dialog", { name: /^Replay/ });
  await replay.getByText("Edit the inputs").click();
  const inputs = replay.getByRole("textbox", { name: "Edited inputs" });
  await expect(inputs).toHaveValue(new RegExp(LARGEST));
  await inputs.fill((await inputs.inputValue()).replace(ODD, "9007199254740995"));
  await replay.getByRole("button", { name: "Replay", exact: true }).click();
  await expect(open).not.toHaveURL(new RegExp(first));
  await expect.poll(async () => read(open, `/executions/${await latest(daemon, "typed")}`)).toContain('"n":9007199254740995');

  await open.goto(`${daemon.base}/state`);
  await open.getByRole("button", { name: "New value" }).click();
  await open.getByLabel("Key", { exact: true }).fill("digits");
  await open.getByLabel("Value as JSON").fill(`{"id": ${ODD}}`);
  await open.getByRole("button", { name: "Keep" }).click();
  await expect(open.getByRole("region", { name: "digits" })).toContainText(ODD);

  const schema = `verify: none, schema: {properties: {id: {maximum: ${ODD}}}}`;
  await daemon.write("automations/formed.yaml", ECHO.replace("verify: none", schema));
  await open.goto(`${daemon.base}/automations/formed?tab=both&drawer=limits`);
  const field = open.getByRole("textbox", { name: "Schema of the body" });
  await expect(field).toHaveValue(new RegExp(ODD));
  await field.fill(`{"properties": {"id": {"maximum": ${LARGEST}}}}`);
  await field.blur();
  await expect(open.getByRole("textbox", { name: "Text of the file" })).toContainText(LARGEST);
});
