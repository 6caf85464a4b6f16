/** One file changed in two places: in two tabs, or in a tab and on disk. Nothing is overwritten in silence. */

import type { Page } from "@playwright/test";

import { type Daemon, expect, test } from "./harness";
import { draw } from "./look";

const text = (value: number) => `trigger: {manual: {}}\nsteps:\n  - {id: a, set: {x: ${value}}}\n`;
const editor = (page: Page) => page.getByRole("textbox", { name: "Text of the file" });
const onDisk = async (daemon: Daemon, id: string) =>
  ((await daemon.api("GET", `/files/automations%2F${id}.yaml`)) as { text: string }).text;

async function type(page: Page, words: string): Promise<void> {
  await editor(page).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type(words);
}

test("a change on disk is shown beside the draft and can be taken over", async ({ open, daemon }) => {
  await daemon.write("automations/conflict-theirs.yaml", text(1));
  await open.goto(`${daemon.base}/automations/conflict-theirs?tab=source`);
  await type(open, "# mine");
  await daemon.write("automations/conflict-theirs.yaml", text(2));
  await expect(open.getByText("changed on disk while you edited it")).toBeVisible();
  await expect(open.getByRole("button", { name: "Save …" })).toBeDisabled();
  await open.getByRole("button", { name: "Compare" }).click();
  await expect(open.getByRole("region", { name: "Changes of theirs" })).toContainText("x: 2");
  await expect(open.getByRole("region", { name: "Changes of mine" })).toContainText("# mine");
  await draw(open, "file changed meanwhile");
  await open.getByRole("button", { name: "Take theirs" }).click();
  await expect(editor(open)).toContainText("x: 2");
  await expect(editor(open)).not.toContainText("# mine");
});

test("a change on disk is overwritten only by the button that says so", async ({ open, daemon }) => {
  await daemon.write("automations/conflict-mine.yaml", text(1));
  await open.goto(`${daemon.base}/automations/conflict-mine?tab=source`);
  await type(open, "# mine");
  await open.keyboard.press("Control+s");
  await daemon.write("automations/conflict-mine.yaml", text(2));
  await expect(open.getByText("changed on disk while you edited it")).toBeVisible();
  await open.keyboard.press("Control+s");
  expect(await onDisk(daemon, "conflict-mine")).toBe(text(2));
  await open.getByRole("button", { name: "Save mine over it" }).click();
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  expect(await onDisk(daemon, "conflict-mine")).toBe(`${text(1)}# mine`);
});

test("a save after a change on disk is rejected, and both versions are shown", async ({ open, daemon }) => {
  await daemon.write("automations/conflict-race.yaml", text(1));
  await open.goto(`${daemon.base}/automations/conflict-race?tab=source`);
  await type(open, "# mine");
  await open.keyboard.press("Control+s");
  await expect(open.getByRole("region", { name: "Difference" })).toContainText("# mine");
  // The page does not hear of the change before it saves.
  await open.route("**/api/v1/files/**", async (route) => {
    if (route.request().method() === "PUT") {
      await daemon.write("automations/conflict-race.yaml", text(3));
    }
    await route.continue();
  });
  await open.keyboard.press("Control+s");
  await expect(open.getByText("changed on disk while you edited it")).toBeVisible();
  expect(await onDisk(daemon, "conflict-race")).toBe(text(3));
  await expect(editor(open)).toContainText("# mine");
});

test("with two tabs the draft belongs to the newer one, and a save conflicts in the other", async ({
  open,
  context,
  daemon,
}) => {
  await daemon.write("automations/conflict-tabs.yaml", text(1));
  const address = `${daemon.base}/automations/conflict-tabs?tab=source`;
  await open.goto(address);
  await type(open, "# first");
  const second = await context.newPage();
  await second.goto(address);
  // The newer tab goes on with the draft of the older one, which says that it is no longer kept.
  await expect(second.getByText("the draft that you had not saved")).toBeVisible();
  await expect(open.getByText("This file was opened in another tab later")).toBeVisible();
  await draw(open, "two tabs");
  await type(second, " second");
  await type(open, " older");
  await second.reload();
  await expect(editor(second)).toContainText("# first second");
  await expect(editor(second)).not.toContainText("older");
  await second.getByRole("button", { name: "Save …" }).click();
  await second.getByRole("button", { name: "Save now" }).click();
  await expect(second.getByText("Saved, and in force.")).toBeVisible();
  await expect(open.getByText("changed on disk while you edited it")).toBeVisible();
  await expect(editor(open)).toContainText("# first older");
  expect(await onDisk(daemon, "conflict-tabs")).toBe(`${text(1)}# first second`);
  await second.close();
});
