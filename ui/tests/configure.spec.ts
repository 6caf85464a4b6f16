/** The settings of a trigger as a form: each field is an edit of the one draft of the file, and changes nothing else in it. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "./harness";

const HOOK = `# how orders arrive
name: Configured
trigger:
  webhook:
    mode: sync   # the caller waits
    verify: none
steps:
  - {id: out, set: {n: "\${{ trigger.results.headers['x-n'] }}"}}
  - {id: answer, respond: {status: 201, json: "\${{ steps.out.results }}"}}
`;

test("a field edits only its own bytes of the draft, and is undone and saved", async ({ open, daemon }) => {
  await daemon.write("automations/configure-hook.yaml", HOOK);
  await open.goto(`${daemon.base}/automations/configure-hook?tab=test&drawer=configure`);
  await expect(open.getByRole("link", { name: "line 4 of automations/configure-hook.yaml" })).toBeVisible();
  await expect(open.getByRole("textbox", { name: "Body", exact: true })).toBeDisabled();
  await open.getByLabel("Wait", { exact: true }).fill("10s");
  await open.getByLabel("Wait", { exact: true }).press("Tab");
  await expect(open.getByText("1 unsaved change")).toBeVisible();
  await open.getByRole("button", { name: "Undo" }).click();
  await expect(open.getByLabel("Wait", { exact: true })).toHaveValue("");
  await open.getByLabel("Wait", { exact: true }).fill("20s");
  await open.getByLabel("Wait", { exact: true }).press("Tab");
  await open.getByRole("tab", { name: "Limits" }).click();
  await open.getByLabel("At the same time").fill("2");
  await open.getByLabel("At the same time").press("Tab");
  await expect(open.getByLabel("At the same time")).toHaveValue("2");
  await open.getByRole("button", { name: "Save…" }).click();
  await open.getByRole("button", { name: "Save now" }).click();
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  const text = readFileSync(join(daemon.folder, "automations/configure-hook.yaml"), "utf8");
  expect(text).toContain("mode: sync   # the caller waits\n");
  expect(text).toContain("timeout: 20s");
  expect(text.split("\n").filter((line) => !/timeout|concurrency|limit/.test(line))).toEqual(HOOK.split("\n"));
});

test("fields changed while another edit is in flight are all in the draft", async ({ open, daemon }) => {
  await daemon.write("automations/configure-fast.yaml", HOOK);
  let release = () => {};
  const held = new Promise<void>((done) => (release = done));
  await open.route("**/api/v1/edit", async (route) => {
    await held;
    await route.continue();
  });
  await open.goto(`${daemon.base}/automations/configure-fast?tab=test&drawer=configure`);
  await expect(open.getByRole("checkbox", { name: "GET" })).toBeChecked();
  await open.getByLabel("Wait", { exact: true }).fill("10s");
  await open.getByLabel("Wait", { exact: true }).press("Tab");
  await open.getByLabel("Largest body", { exact: true }).fill("1MiB");
  await open.getByLabel("Largest body", { exact: true }).press("Tab");
  await open.getByRole("checkbox", { name: "GET" }).uncheck();
  release();
  await open.getByRole("button", { name: "Save…" }).click();
  const difference = open.getByRole("region", { name: "Difference" });
  for (const added of ["timeout: 10s", "maxBody: 1MiB", "POST"]) {
    await expect(difference).toContainText(added);
  }
});

test("a schedule shows its description and next five fires, and an impossible date is an error", async ({ open, daemon }) => {
  await daemon.write("automations/configure-schedule.yaml", 'trigger: {schedule: {daily: {at: "08:30"}}}\nsteps: [{set: {a: 1}}]\n');
  await open.goto(`${daemon.base}/automations/configure-schedule?tab=test&drawer=configure`);
  await expect(open.getByText("Next:")).toBeVisible();
  await open.getByRole("radio", { name: "Weekly" }).check();
  await expect(open.getByText(/Monday/).first()).toBeVisible();
  await open.getByRole("radio", { name: "Custom" }).check();
  await open.getByLabel(/Five fields/).fill("0 0 30 2 *");
  await open.getByLabel(/Five fields/).press("Tab");
  await expect(open.locator("p.bad").first()).toBeVisible();
});

test("a change of the trigger lists kept, lost and broken keys, and writes nothing until saved", async ({ open, daemon }) => {
  await daemon.write("automations/configure-change.yaml", HOOK);
  await open.goto(`${daemon.base}/automations/configure-change?tab=test`);
  await open.getByRole("button", { name: "Change trigger…" }).click();
  const sheet = open.getByRole("dialog", { name: "Change the trigger" });
  await sheet.getByRole("radio", { name: /^Schedule/ }).check();
  await expect(sheet.getByText("webhook.mode")).toBeVisible();
  await expect(sheet.getByText("not_a_webhook")).toBeVisible();
  await expect(sheet.getByText("respond-without-caller").or(sheet.getByText("unknown-member")).first()).toBeVisible();
  await sheet.getByRole("button", { name: "Diff" }).click();
  await expect(sheet.getByRole("region", { name: "Difference" })).toContainText("schedule");
  await sheet.getByRole("button", { name: "Apply to the draft" }).click();
  await expect(open.getByRole("heading", { name: "Trigger · schedule" })).toBeVisible();
  expect(readFileSync(join(daemon.folder, "automations/configure-change.yaml"), "utf8")).toBe(HOOK);
  await open.getByRole("button", { name: "Undo" }).click();
  await expect(open.getByRole("heading", { name: "Trigger · webhook" })).toBeVisible();
});

const SIGNED = `trigger:
  webhook:
    verify: {preset: github, secret: "\${{ secrets.configureHook }}"}
steps: [{set: {a: 1}}]
`;

test("a secret is named, set and chosen without its value, and a body is checked as JSON", async ({ open, daemon }) => {
  await daemon.write("automations/configure-signed.yaml", SIGNED);
  await open.goto(`${daemon.base}/automations/configure-signed?tab=test&drawer=configure`);
  await expect(open.getByText("${{ secrets.configureHook }}")).toBeVisible();
  await expect(open.getByText("missing")).toBeVisible();
  await open.getByRole("button", { name: "Choose… the secret for Secret" }).click();
  const sheet = open.getByRole("dialog", { name: "Choose a secret" });
  await expect(sheet.getByLabel("Name")).toHaveValue("configureHook");
  await sheet.getByLabel("Value").fill("canary-of-configure");
  await sheet.getByRole("button", { name: "Set and use" }).click();
  await expect(open.getByText(/^●\s*set$/)).toBeVisible();
  await daemon.api("PUT", "/secrets/configureOther", { value: "another-canary" });
  await open.reload();
  await open.getByRole("button", { name: "Choose… the secret for Secret" }).click();
  await sheet.getByRole("button", { name: "Use configureOther" }).click();
  await expect(open.getByText("${{ secrets.configureOther }}")).toBeVisible();
  expect(await open.content()).not.toContain("canary");
  const body = open.getByRole("textbox", { name: "Body", exact: true });
  await body.fill('{"accepted": tru');
  await expect(open.getByText(/^not JSON/)).toBeVisible();
  await body.fill('{"accepted": true}');
  await expect(open.getByText("valid JSON")).toBeVisible();
  await body.press("Tab");
  await expect(open.getByText(/unsaved change/)).toBeVisible();
  await open.getByLabel("Status").fill("202");
  await open.getByLabel("Status").press("Tab");
  await open.getByRole("button", { name: "Save…" }).click();
  const difference = open.getByRole("region", { name: "Difference" });
  await expect(difference).toContainText("configureOther");
  await expect(difference).toContainText("status: 202");
});

test("an event is chosen with its application, its connection and its inputs", async ({ open, daemon }) => {
  await daemon.write("automations/configure-event.yaml", "enabled: false\ntrigger: {event: wiki.pageChanged, connection: mainWiki}\nsteps: []\n");
  await open.goto(`${daemon.base}/automations/configure-event?tab=test&drawer=configure`);
  await expect(open.getByLabel("Application")).toHaveValue("wiki");
  await expect(open.getByLabel("Connection")).toHaveValue("mainWiki");
  await expect(open.getByText("The application is polled")).toBeVisible();
  await open.getByLabel("Application").selectOption("github");
  await expect(open.getByText("The subscription at the application is created for you")).toBeVisible();
  await open.getByLabel("owner *").fill("acme");
  await open.getByLabel("owner *").press("Tab");
  await expect(open.getByLabel("owner *")).toHaveValue("acme");
  await open.getByRole("button", { name: "Save…" }).click();
  await expect(open.getByRole("region", { name: "Difference" })).toContainText("owner: acme");
});

test("a poll is run once and reset where it is configured", async ({ open, daemon }) => {
  const text = "trigger: {poll: {action: http.request, with: {url: \"http://127.0.0.1:1/\"}, every: 1h, items: result.body, id: item.id}}\nsteps: []\n";
  await daemon.write("automations/configured-poll.yaml", text);
  await open.goto(`${daemon.base}/automations/configured-poll?tab=test&drawer=configure`);
  await open.getByRole("button", { name: "Poll once" }).click();
  await expect(open.getByRole("status").filter({ hasText: "The poll failed" })).toBeVisible();
  await open.getByRole("button", { name: "Reset…" }).click();
  await open.getByRole("button", { name: "Forget the position" }).click();
  await expect(open.getByText("The position is forgotten")).toBeVisible();
});

test("a change of the trigger says which values become null", async ({ open, daemon }) => {
  const text = "trigger: {webhook: {verify: none}}\nsteps:\n  - {id: one, set: {a: \"${{ trigger.results.body.data.total }}\"}}\n";
  await daemon.write("automations/nulls.yaml", text);
  await open.goto(`${daemon.base}/automations/nulls?tab=test&drawer=configure&change=yes`);
  const sheet = open.getByRole("dialog", { name: "Change the trigger" });
  await sheet.getByRole("radio", { name: /^Manual/ }).check();
  await expect(sheet.getByText("Becomes null")).toBeVisible();
  await expect(sheet).toContainText("`trigger.results.body.data.total` is null: there is no input `total`");
  await expect(sheet).toContainText("nothing that the checker knows of");
});
