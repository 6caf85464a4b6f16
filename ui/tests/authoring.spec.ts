/** From what ran to a file: palette, values in the editor, new automations from payloads, tests that follow, versions. */

import type { Page } from "@playwright/test";

import { type Daemon, expect, test } from "./harness";

test.use({ own: "authoring" });

const FILE = `name: Greeter

trigger:
  webhook:
    mode: async
    verify: none

steps:
  - id: page
    set:
      greeting: Hello \${{ trigger.results.body.data.name }}
  - id: other
    set:
      a: \${{ steps.page.results.greeting }}
`;
const TESTS = `tests:
  - name: it greets # by name
    payload: {body: {name: Ada}}
    expect: {steps: {page: succeeded}, that: "steps.page.result.greeting == 'Hello Ada'"}
`;

const editor = (page: Page) => page.getByRole("textbox", { name: "Text of the file" });
const palette = async (page: Page, text: string) => {
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Go to" }).fill(text);
};
const offered = (page: Page) => page.getByRole("listbox", { name: "Places and actions" }).getByRole("option");
/** Rests the mouse on a word of the text: the line is wider than its words. */
async function hover(page: Page, word: string) {
  const line = editor(page).locator(".cm-line", { hasText: word });
  const { x, y } = await line.evaluate((element, found) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const at = node.textContent?.indexOf(found) ?? -1;
      if (at >= 0) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + found.length);
        const box = range.getBoundingClientRect();
        return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
      }
    }
    throw new Error(`no text ${found}`);
  }, word);
  await page.mouse.move(x, y);
}
const onDisk = async (daemon: Daemon, path: string) =>
  ((await daemon.api("GET", `/files/${encodeURIComponent(path)}`)) as { text: string }).text;
const latest = async (daemon: Daemon, automation: string) =>
  ((await daemon.api("GET", `/executions?automation=${automation}&limit=1`)) as { executions: { id: string; status: string }[] })
    .executions[0];

test("the palette disables an automation, changes the theme, and goes to the run button", async ({ open, daemon }) => {
  await daemon.write("automations/greeter.yaml", FILE);
  await daemon.write("automations/by-hand.yaml", "name: By hand\ntrigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
  await open.goto(daemon.base);
  await palette(open, "disable greeter");
  await expect(offered(open).first()).toContainText("Disable Greeter");
  await open.keyboard.press("Enter");
  await expect(open.getByRole("dialog")).toHaveCount(0);
  await expect.poll(() => onDisk(daemon, "automations/greeter.yaml")).toContain("enabled: false");
  await palette(open, "theme dark");
  await open.keyboard.press("Enter");
  await expect(open.locator("html")).toHaveAttribute("data-theme", "dark");
  await open.reload();
  await expect(open.locator("html")).toHaveAttribute("data-theme", "dark");
  expect(await open.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe("rgb(20, 22, 26)");
  await palette(open, "theme as the system");
  await open.keyboard.press("Enter");
  await palette(open, "run by hand");
  await open.keyboard.press("Enter");
  await expect(open.getByRole("button", { name: "Run now" })).toBeFocused();
  await open.keyboard.press("Enter");
  await expect(open.getByRole("region", { name: "Test executions" })).toContainText("The execution succeeded");
});

test("a palette opened while the previous action still runs stays open", async ({ open, daemon }) => {
  await daemon.write("automations/slow.yaml", "name: Slow\ntrigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
  await open.goto(daemon.base);
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  await open.route("**/disable", async (route) => {
    await held;
    await route.continue();
  });
  await palette(open, "disable slow");
  const asked = open.waitForRequest("**/disable");
  await open.keyboard.press("Enter");
  await asked;
  const answered = open.waitForResponse("**/disable");
  await palette(open, "slow");
  answer();
  await (await answered).finished();
  await expect.poll(() => onDisk(daemon, "automations/slow.yaml")).toContain("enabled: false");
  await expect(open.getByRole("combobox", { name: "Go to" })).toHaveValue("slow");
});

test("the palette goes to a step and to a line of the open file", async ({ open, daemon }) => {
  await daemon.write("automations/places.yaml", FILE);
  await open.goto(`${daemon.base}/automations/places`);
  await expect(open.getByRole("tree")).toBeVisible();
  await palette(open, "other");
  await expect(offered(open).first()).toContainText("Step");
  await open.keyboard.press("Enter");
  await expect(open).toHaveURL(/step=other/);
  await palette(open, "9");
  await expect(offered(open).first()).toContainText("Line 9 of automations/places.yaml");
  await open.keyboard.press("Enter");
  await expect(editor(open)).toBeFocused();
  await expect(open).toHaveURL(/step=page/);
});

test("an expression shows the value that it had in a chosen execution", async ({ open, daemon }) => {
  await daemon.write("automations/values.yaml", FILE);
  await daemon.send("values", { name: "Ada" });
  await expect.poll(async () => (await latest(daemon, "values"))?.status).toBe("succeeded");
  await open.goto(`${daemon.base}/automations/values?tab=source`);
  await open.getByLabel("Values from an execution").selectOption({ index: 1 });
  await expect(open).toHaveURL(/values=/);
  const described = open.locator(".cm-value");
  await hover(open, ".name");
  await expect(described).toHaveText('Where page began:"Ada"');
  await hover(open, ".greeting");
  await expect(described).toHaveText('Where other began:"Hello Ada"');
});

test("a new automation is created from an execution, and its test passes", async ({ open, daemon }) => {
  await daemon.write("automations/source.yaml", FILE);
  await daemon.send("source", { invoice: "A-17", total: 12 });
  await expect.poll(async () => (await latest(daemon, "source"))?.status).not.toBe("running");
  const id = (await latest(daemon, "source"))?.id ?? "";
  await open.goto(`${daemon.base}/executions/${id}`);
  await open.getByRole("button", { name: "More actions" }).click();
  await open.getByRole("menuitem", { name: "New automation from its payload" }).click();
  await expect(open.getByText("It reads the fields of")).toContainText(`execution ${id.slice(0, 8)}`);
  await open.getByLabel("Name", { exact: true }).fill("Invoice intake");
  await expect(open.getByRole("region", { name: "Preview of automations/invoice-intake.yaml" })).toContainText("total:");
  await open.getByRole("radio", { name: /^Schedule/ }).check();
  await expect(open.getByText("starts no automation with this trigger")).toBeVisible();
  await open.getByRole("radio", { name: /^Webhook/ }).check();
  await open.getByRole("button", { name: "Create" }).click();
  await expect(open).toHaveURL(/automations\/invoice-intake\?tab=test&drawer=configure/);
  await open.getByRole("tab", { name: "Tests" }).click();
  await expect(open.getByText("1 of 1 passed")).toBeVisible();
});

test("a new automation is created from a chosen saved payload", async ({ open, daemon }) => {
  await daemon.write("automations/saver.yaml", FILE);
  await daemon.api("POST", "/automations/saver/payloads", { name: "first", payload: { body: { ticket: 4 } } });
  await open.goto(`${daemon.base}/new`);
  await open.getByLabel("Name", { exact: true }).fill("Ticket intake");
  await open.getByRole("button", { name: /^From a capture/ }).click();
  await open.getByLabel("Automation that received it").selectOption("saver");
  await open.getByRole("button", { name: "saved first" }).click();
  await expect(open.getByRole("region", { name: "Preview of automations/ticket-intake.yaml" })).toContainText(
    "ticket: ${{ trigger.results.body.data.ticket }}",
  );
  await open.getByRole("button", { name: "Create" }).click();
  await expect(open.getByRole("tab", { name: "Configure" })).toHaveAttribute("aria-selected", "true");
  await open.getByRole("tab", { name: "Tests" }).click();
  await expect(open.getByText("1 of 1 passed")).toBeVisible();
});

test("an action is inserted as a step into the draft of an automation", async ({ open, daemon }) => {
  await daemon.write("automations/inserted.yaml", FILE);
  await open.goto(`${daemon.base}/connectors/log`);
  await open.getByText("log.info", { exact: true }).click();
  const chosen = open.getByLabel("Automation that gets log.info");
  await chosen.focus();
  await chosen.selectOption("inserted");
  await open.getByRole("button", { name: "Insert as a step" }).first().click();
  await expect(editor(open)).toContainText("action: log.info");
  await expect(open.getByText("1 unsaved change")).toBeVisible();
  expect(await onDisk(daemon, "automations/inserted.yaml")).toBe(FILE);
});

test("a new automation is created from a connector action as its first step", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/connectors/log`);
  await open.getByText("log.info", { exact: true }).click();
  await open.getByRole("link", { name: "New automation with this step" }).first().click();
  await expect(open.getByText("Its first step calls log.info.")).toBeVisible();
  await open.getByLabel("Name", { exact: true }).fill("From an action");
  await expect(open.getByRole("region", { name: "Preview of automations/from-an-action.yaml" })).toContainText("action: log.info");
  await open.getByRole("button", { name: "Create" }).click();
  await expect(open).toHaveURL(/from-an-action\?tab=both/);
  await expect(editor(open)).toContainText("action: log.info");
  // The tests run once their tab is open.
  await open.getByRole("tab", { name: "Tests", exact: true }).click();
  await expect(open.getByRole("tab", { name: "Tests 1 ✔" })).toBeVisible();
});

test("renaming a step updates the tests beside the automation in one change", async ({ open, daemon }) => {
  await daemon.write("automations/renamed.yaml", FILE);
  await daemon.write("automations/renamed.test.yaml", TESTS);
  await open.goto(`${daemon.base}/automations/renamed?tab=source`);
  await editor(open).getByText("id: page").click();
  await open.keyboard.press("F2");
  await open.getByLabel("New id of step page").fill("made");
  await open.keyboard.press("Enter");
  await expect(editor(open)).toContainText("steps.made.results");
  await open.getByRole("button", { name: "Save …" }).click();
  const difference = open.getByRole("region", { name: "Difference" });
  await expect(difference).toContainText("automations/renamed.test.yaml");
  await expect(difference).toContainText("made: succeeded");
  // The tests of the draft have the new name before it is saved.
  await open.getByRole("button", { name: /^Try on recorded/ }).click();
  await expect(open.getByText(/1 passed/)).toBeVisible();
  await open.getByRole("button", { name: "Save now" }).click();
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  await expect.poll(() => onDisk(daemon, "automations/renamed.test.yaml")).toBe(TESTS.replaceAll("page", "made"));
  expect(daemon.command(["test", "automations/renamed.test.yaml"])).toContain("1 passed");
  // A new id in the form of the step is the same change.
  await open.goto(`${daemon.base}/automations/renamed?tab=both&step=made`);
  const id = open.getByRole("region", { name: "Step made" }).getByLabel("id", { exact: true });
  await id.fill("page");
  await id.press("Tab");
  await expect(editor(open)).toContainText("steps.page.results");
  await open.keyboard.press("Control+s");
  await expect(difference).toContainText("page: succeeded");
  await open.keyboard.press("Control+s");
  await expect.poll(() => onDisk(daemon, "automations/renamed.test.yaml")).toBe(TESTS);
});

test("renaming a step leaves tests of another automation unchanged", async ({ open, daemon }) => {
  await daemon.write("automations/own-steps.yaml", FILE);
  await daemon.write("automations/of-another.yaml", FILE);
  const tests = `automation: own-steps\n${TESTS}`;
  await daemon.write("automations/of-another.test.yaml", tests);
  await open.goto(`${daemon.base}/automations/of-another?tab=source`);
  await editor(open).getByText("id: page").click();
  await open.keyboard.press("F2");
  await open.getByLabel("New id of step page").fill("made");
  await open.keyboard.press("Enter");
  await expect(editor(open)).toContainText("steps.made.results");
  await open.getByRole("button", { name: "Save …" }).click();
  const difference = open.getByRole("region", { name: "Difference" });
  await expect(difference).toContainText("id: made");
  await open.getByRole("button", { name: "Save now" }).click();
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  expect(await onDisk(daemon, "automations/of-another.test.yaml")).toBe(tests);
});

test("the plan of a draft is shown in the graph before it is saved", async ({ open, daemon }) => {
  await daemon.write("automations/planned.yaml", FILE);
  await open.goto(`${daemon.base}/automations/planned?tab=both`);
  await editor(open).getByText("id: other").click();
  await open.keyboard.press("Control+End");
  await open.keyboard.insertText("  - id: third\n    set: {b: 1}\n");
  await expect(open.getByRole("treeitem").filter({ hasText: "third" })).toBeVisible();
  await open.getByRole("button", { name: "Plan" }).click();
  await expect(open.getByRole("region", { name: "Plan" })).toContainText("executions in flight go on");
  await expect(open.getByRole("treeitem").filter({ hasText: "third" })).toContainText("added");
  await expect(open.getByRole("treeitem").filter({ hasText: "other" }).first()).not.toContainText("changed");
  await editor(open).getByText("greeting: Hello").click();
  await open.keyboard.press("End");
  await open.keyboard.type("!");
  await expect(open.getByRole("treeitem").filter({ hasText: "page" }).first()).toContainText("changed");
});

test("versions show their changes and the number of their executions", async ({ open, daemon }) => {
  await daemon.write("automations/versions.yaml", FILE);
  await daemon.send("versions", { name: "Ada" });
  await expect.poll(async () => (await latest(daemon, "versions"))?.status).toBe("succeeded");
  await daemon.write("automations/versions.yaml", FILE.replace("Hello", "Goodbye"));
  await open.goto(`${daemon.base}/automations/versions?tab=versions`);
  const versions = open.getByRole("list", { name: "Versions" });
  await expect(versions.getByRole("listitem")).toHaveCount(2);
  await versions.getByRole("listitem").filter({ hasText: "1 execution" }).getByRole("button").click();
  await expect(open.getByRole("region", { name: /^Difference of version/ })).toContainText("+       greeting: Goodbye");
});

test("an execution is compared with any other of its automation", async ({ open, daemon }) => {
  const text = "trigger: {manual: {}}\ninputs: {name: {}}\nsteps: [{id: said, set: {word: \"${{ inputs.name }}\"}}]\n";
  await daemon.write("automations/compared.yaml", text);
  const one = await daemon.run("compared", { inputs: { name: "one" } });
  await daemon.write("automations/compared.yaml", text.replace("word", "term"));
  const two = await daemon.run("compared", { inputs: { name: "two" } });
  await open.goto(`${daemon.base}/executions/${two}`);
  await open.getByRole("button", { name: "Compare with …" }).click();
  await open.getByRole("dialog").getByRole("link", { name: one.slice(0, 8) }).click();
  await expect(open).toHaveURL(`${daemon.base}/executions/${two}/compare/${one}`);
  await expect(open.getByText("payload.inputs.name")).toBeVisible();
  await open.getByText("show the difference").click();
  await expect(open.getByRole("region", { name: "Difference of the versions" })).toContainText("+ steps: [{id: said, set: {word");
});

test("a connection is created from its type; its secret is stored, and the file names it", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/connections`);
  await open.getByRole("link", { name: "New", exact: true }).click();
  await open.getByLabel("Name", { exact: true }).fill("secondWiki");
  await open.getByLabel("Type").selectOption("wiki.basic");
  await open.getByLabel(/^email/).fill("ops@example.com");
  await open.getByLabel(/^host/).fill("https://wiki.example.com");
  await open.getByLabel(/^apiToken/).fill("canary-token");
  await open.getByRole("button", { name: "Create" }).click();
  await expect(open).toHaveURL(/connections\/secondWiki$/);
  await expect(open.getByRole("region", { name: "secondWiki" })).toBeVisible();
  await expect(open.getByRole("region", { name: "mainWiki" })).toHaveCount(0);
  const text = await onDisk(daemon, "connections/secondWiki.yaml");
  expect(text).toContain("apiToken: ${{ secrets.secondWikiApiToken }}");
  expect(text).not.toContain("canary");
  await open.getByRole("link", { name: "connections/secondWiki.yaml" }).click();
  await expect(editor(open)).toContainText("wiki.basic");
});
