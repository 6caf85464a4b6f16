/** Own events: their page, one sent by hand, what it started, and the links between the sender and the started executions. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "./harness";

const SENDER = `trigger: {manual: {}}
inputs: {items: {type: list, required: true}}
steps:
  - id: each
    forEach: inputs.items
    steps:
      - {id: send, action: events.emit, with: {name: parcel.sent, data: {parcel: "\${{ item }}"}}}
  - {id: last, set: {x: 1}}
`;
const TRACK = `trigger: {event: parcel.sent, data: {parcel: {type: text, required: true}, weight: number, kind: {options: [small, large]}}}
steps: [{id: note, set: {x: "\${{ trigger.results.body.data.parcel }}"}}]
`;
const WAITS = `trigger: {manual: {}}
steps: [{id: wait, waitFor: {event: parcel.sent, if: event.data.parcel == 'never'}, timeout: 1h}]
`;

// The lists of other tests have no such events.
test.use({ own: "events" });

test.beforeEach(async ({ daemon }) => {
  await daemon.write("automations/parcel-sender.yaml", SENDER);
  await daemon.write("automations/parcel-track.yaml", TRACK);
  await daemon.write("automations/parcel-waits.yaml", WAITS);
});

test("the page of events names senders, consumers and waiting steps, with links, and filters", async ({ home: open }) => {
  await open.keyboard.press("g");
  await open.keyboard.press("v");
  await expect(open.getByRole("heading", { name: "Events", exact: true })).toBeVisible();
  const event = open.getByRole("region", { name: "parcel.sent", exact: true });
  await expect(event.getByRole("link", { name: "parcel-sender" })).toBeVisible();
  await expect(event.getByRole("link", { name: "parcel-waits" })).toBeVisible();
  await expect(event).toContainText("parcel * text, weight number, kind");
  await expect(open.getByRole("region", { name: "order.paid" })).toContainText("book-payment, ship-order");
  await open.keyboard.press("/");
  await open.keyboard.type("track");
  await expect(open.getByRole("region")).toHaveCount(1);
  expect(open.url()).toContain("q=track");
  await event.getByRole("link", { name: "parcel-track" }).click();
  await expect(open).toHaveURL(/\/automations\/parcel-track/);
});

test("an event is sent by hand in typed fields, and its started executions are shown", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/events`);
  await open.getByRole("button", { name: "Send parcel.sent" }).click();
  const sheet = open.getByRole("dialog", { name: "Send parcel.sent" });
  await sheet.getByLabel("parcel *").fill("p-1");
  await sheet.getByLabel("weight").fill("1.5");
  await sheet.getByLabel("kind").selectOption("large");
  await sheet.getByLabel("write the data as JSON").check();
  await expect(sheet.getByRole("textbox", { name: "Data as JSON" })).toHaveValue(/"weight": 1.5,\s+"kind": "large"/);
  await sheet.getByLabel("write the data as JSON").uncheck();
  await expect(sheet.getByLabel("weight")).toHaveValue("1.5");
  await sheet.getByLabel(/^Id/).fill("by-hand-1");
  await sheet.getByLabel(/^Id/).press("Enter");
  await expect(sheet.getByRole("status")).toHaveText("No step waited for it; it starts 1 trigger; it is kept for 7 days for steps that wait later.");
  const row = sheet.getByRole("row", { name: /parcel-track/ });
  await expect(row).toContainText("Succeeded");
  await sheet.getByRole("button", { name: "Close" }).last().click();
  await expect(sheet).toHaveCount(0);
  const event = open.getByRole("region", { name: "parcel.sent", exact: true });
  await event.getByText("Kept for steps that wait later").click();
  await expect(event.getByRole("listitem").first()).toContainText("web UI");
  const { executions } = (await daemon.api("GET", "/executions?eventId=by-hand-1")) as { executions: { origin: { by?: string } }[] };
  expect(executions).toHaveLength(1);
});

test("any event is sent as JSON, and a mistake in it is shown before it is sent", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/events`);
  await open.getByRole("button", { name: "Send an event …" }).click();
  const sheet = open.getByRole("dialog", { name: "Send an event" });
  await sheet.getByLabel("Name").fill("nobody.listens");
  await sheet.getByRole("textbox", { name: "Data as JSON" }).fill('{"a": }');
  await expect(sheet.getByText(/^not JSON/)).toBeVisible();
  await expect(sheet.getByRole("button", { name: "Send", exact: true })).toBeDisabled();
  await sheet.getByRole("textbox", { name: "Data as JSON" }).fill('{"a": 12345678901234567890}');
  await sheet.getByRole("button", { name: "Send", exact: true }).click();
  await expect(sheet.getByRole("status")).toHaveText("No step waited for it; it starts nothing; it is not kept.");
  await sheet.getByRole("button", { name: "Send another one" }).click();
  await expect(sheet.getByLabel("Name")).toHaveValue("nobody.listens");
});

test("a started execution leads to the step that sent its event, and that step to all that it started", async ({ open, daemon }) => {
  const sender = await daemon.run("parcel-sender", { inputs: { items: Array.from({ length: 30 }, (_, index) => `p-${index}`) } });
  await expect(async () => {
    const { total } = (await daemon.api("GET", `/executions?startedBy=${sender}&status=succeeded&count=true`)) as { total: { count: number } };
    expect(total.count).toBe(30);
  }).toPass();
  await open.goto(`${daemon.base}/executions/${sender}`);
  await open.getByRole("link", { name: "25 more" }).click();
  await expect(open.getByText("30 found")).toBeVisible();
  await expect(open.getByText("Started by events of")).toBeVisible();
  await open.getByRole("table", { name: "Executions" }).getByRole("link", { name: "parcel-track" }).last().click();
  await expect(open.getByText(/Started by the event/)).toContainText("parcel.sent");
  await open.getByRole("link", { name: /^send\[\d+\]$/ }).click();
  const started = open.getByRole("region", { name: "Started executions" });
  await expect(started.getByRole("row")).toHaveCount(2);
  await started.getByRole("link", { name: "parcel-track" }).click();
  await expect(open).not.toHaveURL(new RegExp(sender));
});

test("a new automation starts by an own event or by failures", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/new?trigger=ownEvent`);
  await expect(open.getByRole("radio", { name: /^Own event/ })).toBeChecked();
  await open.getByLabel("Name", { exact: true }).fill("Parcel mail");
  await expect(open.getByRole("region", { name: "Preview of automations/parcel-mail.yaml" })).toContainText("event: order.paid");
  await open.getByRole("radio", { name: /^Failure/ }).check();
  await expect(open.getByRole("region", { name: "Preview of automations/parcel-mail.yaml" })).toContainText("event: cogwork.failure");
  await open.getByRole("button", { name: "Create" }).click();
  await expect(open.getByRole("heading", { name: "Parcel mail" })).toBeVisible();
  await open.getByRole("group", { name: "kinds" }).getByLabel("poll").uncheck();
  await open.getByLabel("labels").fill("billing, shop");
  await open.getByLabel("labels").press("Tab");
  await open.getByRole("button", { name: "Save…" }).click();
  const difference = open.getByRole("region", { name: "Difference" });
  await expect(difference).toContainText("- subscription");
  await expect(difference).not.toContainText("- poll");
  await expect(difference).toContainText("labels: [billing, shop]");
});

test("the declared data of an own event are edited in rows", async ({ open, daemon }) => {
  await daemon.write("automations/parcel-rows.yaml", "trigger: {event: parcel.sent}\nsteps: [{id: note, set: {x: 1}}]\n");
  await open.goto(`${daemon.base}/automations/parcel-rows?tab=test&drawer=configure`);
  await open.getByLabel("Data: name of a new field").fill("parcel");
  await open.getByRole("button", { name: "Add to Data" }).click();
  await open.getByLabel("Type of parcel").selectOption("integer");
  await open.getByRole("checkbox", { name: "required" }).check();
  await open.getByLabel("Data: name of a new field").fill("weight");
  await open.getByRole("button", { name: "Add to Data" }).click();
  await open.getByRole("button", { name: "Save…" }).click();
  await open.getByRole("button", { name: "Save now" }).click();
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  const text = readFileSync(join(daemon.folder, "automations/parcel-rows.yaml"), "utf8");
  expect(text).toContain("data: {parcel: {type: integer, required: true}, weight: text}");
});

test("the form of a step that sends an event has the fields that its consumers declare", async ({ open, daemon }) => {
  const text = "trigger: {manual: {}}\nsteps:\n  - id: send\n    action: events.emit\n    with: {name: parcel.sent, data: {parcel: a}}\n  - id: wait\n    waitFor: {event: parcel.sent}\n    timeout: 0s\n    onTimeout: continue\n";
  await daemon.write("automations/parcel-form.yaml", text);
  await open.goto(`${daemon.base}/automations/parcel-form?tab=both&step=send`);
  const form = open.getByRole("region", { name: "Step send" });
  await expect(form.getByRole("heading", { name: "Data of the event" })).toBeVisible();
  await form.getByLabel("kind").selectOption("small");
  await expect(open.getByRole("textbox", { name: "Text of the file" })).toContainText("data: {parcel: a, kind: small}");
  await open.goto(`${daemon.base}/automations/parcel-form?tab=both&step=wait`);
  const wait = open.getByRole("region", { name: "Step wait" });
  await expect(wait.getByLabel("event")).toHaveValue("parcel.sent");
  await wait.getByLabel("since").fill("5m");
  await wait.getByLabel("since").press("Tab");
  await expect(open.getByRole("textbox", { name: "Text of the file" })).toContainText("waitFor: {event: parcel.sent, since: 5m}");
});
