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

test("a field is an edit of the draft that is undone and saved, and changes no other byte", async ({ open, daemon }) => {
  await daemon.write("automations/configure-hook.yaml", HOOK);
  await open.goto(`${daemon.base}/automations/configure-hook?tab=test&drawer=configure`);
  await open.getByLabel("Wait").fill("10s");
  await open.getByLabel("Wait").press("Tab");
  await expect(open.getByText("Unsaved changes.")).toBeVisible();
  await open.getByRole("button", { name: "Undo" }).click();
  await expect(open.getByLabel("Wait")).toHaveValue("");
  await open.getByLabel("Wait").fill("20s");
  await open.getByLabel("Wait").press("Tab");
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

test("a schedule has its words and its next five instants, and an impossible date is an error", async ({ open, daemon }) => {
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

test("a change of the trigger says what is kept, lost and broken, and writes nothing before it is saved", async ({ open, daemon }) => {
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
