/** Files changed in the browser: in the source, by forms, from a card. */

import type { Page } from "@playwright/test";

import { expectAccessible } from "./axe";
import { type Daemon, expect, test } from "./harness";
import { draw } from "./look";

const FILE = `name: Orders # for people

trigger:
  manual: {}

steps:
  # the first
  - id: page
    action: log.info
    with:
      message: Hello
  - id: other # second
    set:
      a: \${{ steps.page.results }}
`;

const editor = (page: Page) => page.getByRole("textbox", { name: "Text of the file" });
const onDisk = async (daemon: Daemon, id: string) =>
  ((await daemon.api("GET", `/files/automations%2F${id}.yaml`)) as { text: string }).text;

test("a file is fixed: the problem is shown at its line, the diff reviewed, the saved file deployed", async ({
  open,
  daemon,
}) => {
  await daemon.write("automations/mend.yaml", "trigger: {manual: {}}\nsteps:\n  - {id: a, set: {x: 1}}\n");
  await open.goto(`${daemon.base}/automations/mend?tab=source`);
  const editor = open.getByRole("textbox", { name: "Text of the file" });
  await editor.click();
  await open.keyboard.press("Control+End");
  await open.keyboard.type("  - {id: b, sett: {y: 2}}");
  await expect(open.getByText("unknown key `sett`")).toBeVisible();
  await open.keyboard.press("Control+s");
  await expect(open.getByRole("region", { name: "Difference" })).toContainText("sett");
  await expect(open.getByRole("button", { name: "Save with errors" })).toBeVisible();
  await open.reload();
  await expect(open.getByText("the draft that you had not saved")).toBeVisible();
  await editor.click();
  await open.keyboard.press("Control+End");
  await open.keyboard.press("Shift+Home");
  await open.keyboard.type("- {id: b, action: log.info, with: {message: age}}");
  await expect(open.getByText("unknown key `sett`")).toBeHidden();
  await open.getByRole("button", { name: "Save …" }).click();
  await open.getByRole("button", { name: "Save now" }).click();
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  await open.getByRole("tab", { name: "Graph" }).click();
  await expect(open.getByRole("tree").getByText("b", { exact: true })).toBeVisible();
});

test("the editor completes keys, actions and steps, and describes them", async ({ open, daemon }) => {
  await daemon.write("automations/complete.yaml", FILE);
  await open.goto(`${daemon.base}/automations/complete?tab=source`);
  await editor(open).click();
  await open.keyboard.press("Control+End");
  await open.keyboard.type("  - ");
  await open.keyboard.press("Control+Space");
  // The list takes keys once it has been there for a moment, which the mark on another option shows. Before, the editor takes them, and the list closes.
  const marked = open.locator(".cm-tooltip-autocomplete [aria-selected]");
  const first = await marked.textContent();
  await expect(async () => {
    await open.keyboard.press("ArrowDown");
    if ((await marked.count()) === 0) {
      await open.keyboard.press("Control+Space");
    }
    expect(await marked.textContent()).not.toBe(first);
  }).toPass();
  const key = (await marked.locator(".cm-completionLabel").textContent()) ?? "";
  await open.keyboard.press("Enter");
  await expect(editor(open).locator(".cm-line").last()).toHaveText(new RegExp(`^ {2}- ${key}:`));
  await open.keyboard.press("Shift+Home");
  await open.keyboard.type("- action: log.in");
  await expect(open.getByRole("option", { name: /^log.info/ })).toBeVisible();
  await open.keyboard.press("Escape");
  await open.keyboard.type("fo\nwith: {message: \"${{ steps.");
  await expect(open.getByRole("option", { name: /^page/ })).toBeVisible();
  await open.keyboard.press("Escape");
  await editor(open).getByText("action", { exact: true }).first().hover();
  await expect(open.locator(".cm-description")).toContainText("action");
});

test("F2 pressed before the text is checked asks for the name once it is", async ({ open, daemon }) => {
  await daemon.write("automations/early.yaml", FILE);
  let release = () => {};
  const held = new Promise<void>((done) => (release = done));
  await open.route("**/api/v1/validate", async (route) => {
    await held;
    await route.continue();
  });
  await open.goto(`${daemon.base}/automations/early?tab=source`);
  await editor(open).getByText("id: page").click();
  await open.keyboard.press("F2");
  release();
  await expect(open.getByLabel("New id of step page")).toBeFocused();
});

test("F2 renames a step and its references", async ({ open, daemon }) => {
  await daemon.write("automations/rename.yaml", FILE);
  await open.goto(`${daemon.base}/automations/rename?tab=source`);
  await editor(open).getByText("id: page").click();
  await expect(open).toHaveURL(/step=page/);
  await open.keyboard.press("F2");
  await open.getByLabel("New id of step page").fill("made");
  await open.keyboard.press("Enter");
  await expect(editor(open)).toContainText("steps.made.results");
  // The focus is back in the editor once the form is gone.
  await expect(open.getByRole("form", { name: "Rename step" })).toBeHidden();
  await open.keyboard.press("Control+s");
  await expect(open.getByRole("region", { name: "Difference" })).toContainText("steps.made.results");
  await open.keyboard.press("Control+s");
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  expect(await onDisk(daemon, "rename")).toBe(FILE.replace("id: page", "id: made").replace("steps.page", "steps.made"));
});

test("F12 goes to the referenced step and to the file of a called automation", async ({ open, daemon }) => {
  await daemon.write("automations/called.yaml", "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
  const source = `trigger: {manual: {}}
steps:
  - {id: page, set: {x: 1}}
  - id: other
    set:
      y: \${{ steps.page.results.x }}
  - {id: third, call: called}
`;
  await daemon.write("automations/define.yaml", source);
  await open.goto(`${daemon.base}/automations/define?tab=both`);
  await editor(open).getByText("steps.page.results.x").click();
  await expect(open).toHaveURL(/step=other/);
  // From the end of the line into the name of the step.
  await open.keyboard.press("End");
  for (let count = 0; count < "e.results.x }}".length; count += 1) {
    await open.keyboard.press("ArrowLeft");
  }
  await open.keyboard.press("F12");
  await expect(open).toHaveURL(/step=page/);
  await expect(open.getByRole("treeitem", { selected: true })).toContainText("page");
  await open.keyboard.press("Control+End");
  await open.keyboard.press("ArrowUp");
  await open.keyboard.press("End");
  await open.keyboard.press("ArrowLeft");
  await open.keyboard.press("ArrowLeft");
  await open.keyboard.press("F12");
  await expect(open).toHaveURL(/files\/automations%2Fcalled\.yaml/);
});

test("a form field changes only its own bytes and is undone in one step", async ({ open, daemon }) => {
  await daemon.write("automations/form.yaml", FILE);
  await open.goto(`${daemon.base}/automations/form?tab=both&step=page`);
  const form = open.getByRole("region", { name: "Step page" });
  await form.getByRole("textbox", { name: "message" }).fill("Good day");
  await form.getByRole("textbox", { name: "message" }).press("Tab");
  await expect(editor(open)).toContainText("message: Good day");
  await form.getByLabel("retry", { exact: true }).fill("3");
  await form.getByLabel("retry", { exact: true }).press("Tab");
  await expect(editor(open)).toContainText("retry: 3");
  await open.getByRole("button", { name: "Undo" }).click();
  await expect(editor(open)).not.toContainText("retry: 3");
  await open.getByRole("button", { name: "Save …" }).click();
  await expect(open.getByText("changes; executions in flight go on")).toBeVisible();
  await open.getByRole("button", { name: "Save now" }).click();
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  expect(await onDisk(daemon, "form")).toBe(FILE.replace("message: Hello", "message: Good day"));
});

test("a field that cannot be edited in place says so and links to its text", async ({ open, daemon }) => {
  const text = "trigger: {manual: {}}\nsteps:\n  - {id: one, action: log.info, with: &same {message: Hello}}\n  - {id: two, action: log.info, with: *same}\n";
  await daemon.write("automations/anchored.yaml", text);
  await open.goto(`${daemon.base}/automations/anchored?tab=graph&step=two`);
  const form = open.getByRole("region", { name: "Step two" });
  await form.getByRole("textbox", { name: "message" }).fill("Good day");
  await form.getByRole("textbox", { name: "message" }).press("Tab");
  await expect(form.getByRole("alert")).toContainText("alias");
  await form.getByRole("button", { name: "Edit as text" }).last().click();
  await expect(editor(open)).toContainText("*same");
  await expect(editor(open)).not.toContainText("Good day");
});

test("graph and source select the same step, both ways, also one named in the URL", async ({ open, daemon }) => {
  await daemon.write("automations/select.yaml", FILE);
  await open.goto(`${daemon.base}/automations/select?tab=both`);
  await open.getByRole("tree").getByText("other").click();
  await expect(open.getByRole("region", { name: "Step other" })).toBeVisible();
  await editor(open).getByText("id: page").click();
  await expect(open.getByRole("treeitem", { selected: true })).toContainText("page");
  await daemon.write("automations/select.yaml", FILE.replace("steps:", `${"# one of many lines\n".repeat(120)}steps:`));
  await open.goto(`${daemon.base}/automations/select?tab=source&step=other`);
  await expect(editor(open).getByText("id: other")).toBeInViewport();
});

test("the graph is operated by keys: to the next step, its form and its line", async ({ open, daemon }) => {
  await daemon.write("automations/keys.yaml", FILE);
  await open.goto(`${daemon.base}/automations/keys?tab=graph`);
  const tree = open.getByRole("tree", { name: "Steps" });
  await tree.getByText("page").click();
  await open.keyboard.press("ArrowDown");
  await expect(open).toHaveURL(/step=other/);
  await expect(tree.getByRole("treeitem", { selected: true })).toBeFocused();
  await open.keyboard.press("Enter");
  await expect(open.getByRole("region", { name: "Step other" }).getByLabel("id", { exact: true })).toBeFocused();
  await tree.getByText("page").click();
  await open.keyboard.press("e");
  await expect(open).toHaveURL(/tab=both/);
  await expect(editor(open)).toBeFocused();
});

test("a step shows its number of errors in the graph", async ({ open, daemon }) => {
  await daemon.write("automations/marked.yaml", FILE.replace("log.info", "log.shout"));
  await open.goto(`${daemon.base}/files/automations%2Fmarked.yaml?tab=both`);
  await expect(open.getByRole("treeitem").filter({ hasText: "page" })).toContainText("1 error");
  await expect(open.getByRole("treeitem").filter({ hasText: "other" })).not.toContainText("error");
});

test("parallel lists become one with a selector in a narrow window and follow the selection", async ({ open, daemon }) => {
  const choice = "trigger: {manual: {}}\nsteps:\n  - id: choice\n    if: inputs.a\n    then:\n      - {id: yes, set: {x: 1}}\n    else:\n      - {id: no, set: {x: 2}}\n";
  await daemon.write("automations/choice.yaml", `inputs: {a: {type: boolean, default: true}}\n${choice}`);
  await open.setViewportSize({ width: 360, height: 800 });
  await open.goto(`${daemon.base}/automations/choice?tab=graph`);
  const tree = open.getByRole("tree", { name: "Steps" });
  await expect(tree.getByText("yes", { exact: true })).toBeVisible();
  await expect(tree.getByText("no", { exact: true })).toBeHidden();
  await tree.getByRole("button", { name: "Next list" }).click();
  await expect(tree.getByText("no", { exact: true })).toBeVisible();
  // The form of a step that is pointed at is a sheet over the whole window; the focus returns to the step.
  await tree.getByText("choice", { exact: true }).click();
  const sheet = open.getByRole("dialog", { name: "Step choice" });
  await expect(sheet.getByRole("heading", { name: "Step · choice" })).toBeVisible();
  expect(await sheet.boundingBox()).toEqual({ x: 0, y: 0, width: 360, height: 800 });
  await expectAccessible(open, "the form of a step as a sheet", [360]);
  await sheet.getByLabel("timeout", { exact: true }).fill("5m");
  await sheet.getByLabel("timeout", { exact: true }).press("Tab");
  await sheet.getByRole("button", { name: "Close" }).click();
  await expect(sheet).toBeHidden();
  await open.keyboard.press("ArrowRight");
  await expect(open).toHaveURL(/step=yes/);
  await expect(tree.getByText("yes", { exact: true })).toBeVisible();
  // Save and Run are at the bottom, above the navigation.
  const foot = open.locator(".at-foot");
  await expect(foot).toContainText("1 unsaved change");
  await expect(foot.getByRole("button", { name: "Run" })).toBeVisible();
  const [bar, navigation] = [await foot.boundingBox(), await open.getByRole("navigation", { name: "Pages" }).boundingBox()];
  expect((bar?.y ?? 0) + (bar?.height ?? 0)).toBeCloseTo(navigation?.y ?? 0, 0);
  await foot.getByRole("button", { name: "Save …" }).click();
  await expect(open.getByRole("region", { name: "Difference" })).toContainText("timeout: 5m");
});

test("the trigger drawer is beside graph and source and edits their draft", async ({ open, daemon }) => {
  await daemon.write("automations/drawn.yaml", "trigger:\n  webhook: {verify: none}\nsteps:\n  - {id: a, set: {x: 1}}\n");
  await open.goto(`${daemon.base}/automations/drawn?tab=both`);
  await expect(open.getByRole("region", { name: "Head of the file" })).toBeVisible();
  await open.getByRole("button", { name: /^webhook/ }).click();
  await expect(open.getByRole("heading", { name: "Trigger · webhook" })).toBeVisible();
  await open.getByRole("radio", { name: /^synchronous/ }).check();
  await expect(editor(open)).toContainText("mode: sync");
  await expect(open.getByText("1 unsaved change")).toBeVisible();
  await open.getByRole("button", { name: "Undo" }).click();
  await expect(open.getByRole("radio", { name: /^asynchronous/ })).toBeChecked();
  await open.getByRole("button", { name: "Close the drawer" }).click();
  await expect(open.getByRole("region", { name: "Head of the file" })).toBeVisible();
});

test("a text that does not parse keeps the last graph and says so", async ({ open, daemon }) => {
  await daemon.write("automations/behind.yaml", FILE);
  await open.goto(`${daemon.base}/automations/behind?tab=both`);
  await editor(open).click();
  await open.keyboard.press("Control+Home");
  await open.keyboard.type("[ ");
  await expect(open.getByText("As of your last valid text.")).toBeVisible();
  await expect(open.getByRole("tree").getByText("page")).toBeVisible();
});

test("a file that does not load is opened from the list and fixed", async ({ open, daemon }) => {
  await daemon.write("automations/unloaded.yaml", FILE.replace("action:", "actoin:"));
  await open.goto(daemon.base);
  const link = open.getByRole("link", { name: "automations/unloaded.yaml" });
  await expect(link).toBeVisible();
  await draw(open, "broken");
  await link.click();
  await editor(open).getByText("actoin").click();
  // The list of problems can come before their marks, which the key corrects.
  await expect(editor(open).locator(".cm-lintRange-error")).toBeVisible();
  await open.keyboard.press("Control+.");
  await expect(open.getByText("unknown key `actoin`")).toHaveCount(0);
  await open.keyboard.press("Control+s");
  await expect(open.getByText("comes into force")).toBeVisible();
  await open.keyboard.press("Control+s");
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  expect(await onDisk(daemon, "unloaded")).toBe(FILE);
});

test("an automation is disabled and enabled by one key of its file", async ({ open, daemon }) => {
  await daemon.write("automations/switch.yaml", FILE);
  await open.goto(`${daemon.base}/automations/switch`);
  await open.getByRole("button", { name: "Disable" }).click();
  await expect(open.getByRole("button", { name: "Enable" })).toBeVisible();
  expect(await onDisk(daemon, "switch")).toBe(FILE.replace("# for people\n", "# for people\nenabled: false\n"));
  await open.getByRole("button", { name: "Enable" }).click();
  await expect(open.getByRole("button", { name: "Disable" })).toBeVisible();
  // The menus of the head, by keyboard: one runs it, the other deletes it.
  await open.getByRole("button", { name: "More actions" }).press("ArrowDown");
  await expect(open.getByRole("menuitem", { name: /^Plan/ })).toBeFocused();
  await open.keyboard.press("End");
  await open.keyboard.press("Enter");
  await expect(open.getByRole("dialog", { name: "Delete Orders" })).toContainText("automations/switch.yaml");
  await open.keyboard.press("Escape");
  await expect(open.getByRole("dialog")).toBeHidden();
  await open.getByRole("button", { name: "Run" }).click();
  await expect(open.getByText("A run really calls other systems.")).toBeVisible();
  await open.getByRole("menuitem", { name: "Run now" }).click();
  // The graph has the states of the run, and the strip below its result.
  await expect(open.getByRole("treeitem").filter({ hasText: "page" })).toContainText(/ms|µs/);
  await expect(open.getByRole("region", { name: "Test executions" }).getByText("The execution succeeded")).toBeVisible();
  await open.getByRole("button", { name: "Hide the execution" }).click();
  await expect(open.getByRole("region", { name: "Test executions" })).toHaveCount(0);
});

test("a new automation is created from a card by keyboard alone", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/new`);
  await expect(open.getByRole("heading", { name: "New automation" })).toBeVisible();
  await open.keyboard.type("Morning digest");
  await expect(open.getByText("automations/morning-digest.yaml").first()).toBeVisible();
  await open.keyboard.press("Tab");
  await open.keyboard.press("Tab");
  for (let step = 0; step < 3; step += 1) {
    await open.keyboard.press("ArrowDown");
  }
  await expect(open.getByRole("radio", { name: /Schedule/ })).toBeChecked();
  await expect(open.getByRole("region", { name: "Preview of automations/morning-digest.yaml" })).toContainText("schedule:");
  await expect(open.getByRole("button", { name: "Create" })).toBeEnabled();
  await open.keyboard.press("Enter");
  await expect(open).toHaveURL(/automations\/morning-digest/);
  await expect(open.getByRole("heading", { name: "Morning digest" })).toBeVisible();
  expect(await onDisk(daemon, "morning-digest.test")).toContain("tests:");
});

for (const card of ["Webhook", "Signed webhook", "Code block", "Schedule", "App event", "Own event", "Failure", "Poll", "Manual"]) {
  test(`the card ${card} creates a valid file and a passing test, and opens its trigger form`, async ({ open, daemon }) => {
    await open.goto(`${daemon.base}/new`);
    await open.getByLabel("Name", { exact: true }).fill(`A ${card}`);
    await open.getByRole("radio", { name: new RegExp(`^${card}`) }).check();
    await expect(open.getByRole("radio", { name: new RegExp(`^${card}`) })).toBeChecked();
    const id = `a-${card.toLowerCase().replaceAll(" ", "-")}`;
    await expect(open.getByRole("region", { name: `Preview of automations/${id}.yaml` })).toBeVisible();
    await open.getByRole("button", { name: "Create" }).click();
    await expect(open).toHaveURL(new RegExp(`automations/${id}`));
    await expect(open.getByRole("heading", { name: /^Trigger/ })).toBeVisible();
    await expect(open.getByRole("tab", { name: "Configure" })).toHaveAttribute("aria-selected", "true");
    await open.getByRole("tab", { name: "Tests" }).click();
    await expect(open.getByText(/^(\d+) of \1 passed$/)).toBeVisible();
    const { diagnostics } = (await daemon.api("GET", `/automations/${id}`)) as { diagnostics: { message: string }[] };
    // Files of other tests may send the event of the example, and then its `allow` is told to be needless.
    const told = diagnostics.map(({ message }) => message).filter((message) => !message.includes("`nobody-sends`"));
    expect(told).toEqual([]);
  });
}
