/** Main tasks by keyboard alone: nothing is clicked, and nothing is focused but by keys. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

import type { Locator, Page } from "@playwright/test";

import { expect, test } from "./harness";

/** The most presses of Tab that lead to a control of a page. */
const MOST_TABS = 80;

async function tabTo(page: Page, target: Locator, key = "Tab"): Promise<void> {
  await expect(target).toBeVisible();
  for (let count = 0; count < MOST_TABS; count += 1) {
    // Also inside a shadow root, where `document.activeElement` is its host.
    if (await target.evaluate((element) => element.matches(":focus"))) {
      return;
    }
    await page.keyboard.press(key);
  }
  await expect(target).toBeFocused();
}

/** A system that answers 500 until it is mended. */
async function peer(): Promise<{ base: string; mend: () => void; server: Server }> {
  let status = 500;
  const server = createServer((_, response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end("{}");
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return { base: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, mend: () => (status = 200), server };
}

test("by keyboard alone: a failed execution is found and replayed", async ({ home: open, daemon }) => {
  const other = await peer();
  const text = `trigger: {manual: {}}\nsteps:\n  - {id: fetch, action: http.request, with: {method: GET, url: "${other.base}/orders"}}\n`;
  await daemon.write("automations/keys-replay.yaml", text);
  const failed = await daemon.run("keys-replay", {});
  other.mend();
  await open.keyboard.press("g");
  await open.keyboard.press("e");
  await expect(open.getByRole("heading", { name: "Executions" })).toBeVisible();
  await open.keyboard.press("/");
  await open.keyboard.type(failed);
  // The head, the execution, and perhaps the execution that handles its failure.
  await expect.poll(async () => [2, 3].includes(await open.getByRole("row").count())).toBe(true);
  // `j` is a letter of the text as long as the field has the focus.
  await open.keyboard.press("Tab");
  await tabTo(open, open.getByRole("link", { name: "keys-replay" }));
  await open.keyboard.press("Enter");
  await expect(open.getByText("Step fetch failed")).toBeVisible();
  await tabTo(open, open.getByRole("button", { name: "Replay…" }));
  await open.keyboard.press("Enter");
  const sheet = open.getByRole("dialog", { name: /^Replay/ });
  await expect(sheet.getByRole("row", { name: /fetch/ })).toBeVisible();
  await tabTo(open, sheet.getByRole("button", { name: "Replay", exact: true }));
  await open.keyboard.press("Enter");
  await expect(open.getByText(/Succeeded after/)).toBeVisible();
  expect(open.url()).not.toContain(failed);
  other.server.close();
});

test("letters typed before the palette is loaded are kept", async ({ home: open }) => {
  let release = () => {};
  const typed = new Promise<void>((done) => (release = done));
  await open.route("**/assets/Palette*", async (route) => {
    await typed;
    await route.continue();
  });
  await open.keyboard.press("Control+k");
  await open.keyboard.type("status g?");
  release();
  await expect(open.getByRole("combobox", { name: "Go to" })).toHaveValue("status g?");
});

test("Enter pressed before the palette has loaded its commands runs the command", async ({ home: open }) => {
  let release = () => {};
  const pressed = new Promise<void>((done) => (release = done));
  await open.route("**/api/v1/connectors", async (route) => {
    await pressed;
    await route.continue();
  });
  await open.keyboard.press("Control+k");
  await open.getByRole("combobox", { name: "Go to" }).fill("theme dark");
  await open.keyboard.press("Enter");
  release();
  await expect(open.locator("html")).toHaveAttribute("data-theme", "dark");
});

test("by keyboard alone: a step is edited, saved and seen to run", async ({ home: open, daemon }) => {
  const text = "trigger: {manual: {}}\nsteps:\n  - id: greet\n    set: {word: hello}\n";
  await daemon.write("automations/keys-edit.yaml", text);
  await open.keyboard.press("Control+k");
  await open.keyboard.type("keys-edit");
  await expect(open.getByRole("dialog").getByRole("option").first()).toContainText("keys-edit");
  await open.keyboard.press("Enter");
  await expect(open).toHaveURL(/automations\/keys-edit/);
  await tabTo(open, open.getByRole("tab", { name: "Graph" }));
  await open.keyboard.press("ArrowRight");
  const editor = open.getByRole("textbox", { name: "Text of the file" });
  await tabTo(open, editor);
  await open.keyboard.press("Control+End");
  await open.keyboard.type("    name: Greet");
  await open.keyboard.press("Control+s");
  await expect(open.getByRole("region", { name: "Difference" })).toContainText("Greet");
  await expect(open.getByText("executions in flight go on")).toBeVisible();
  await open.keyboard.press("Control+s");
  await expect(open.getByText("Saved, and in force.")).toBeVisible();
  // The Tab key indents in the editor until Ctrl M makes it leave.
  await open.keyboard.press("Control+m");
  await tabTo(open, open.getByRole("tab", { name: "Source" }), "Shift+Tab");
  for (let count = 0; count < 2; count += 1) {
    await open.keyboard.press("ArrowRight");
  }
  await expect(open.getByRole("tab", { name: "Trigger and test" })).toHaveAttribute("aria-selected", "true");
  await tabTo(open, open.getByRole("button", { name: "Run now" }));
  await open.keyboard.press("Enter");
  await expect(open.getByRole("region", { name: "Test executions" }).getByText("The execution succeeded")).toBeVisible();
});

test("by keyboard alone: a question is answered in the inbox", async ({ home: open, daemon }) => {
  await daemon.send("approval", { what: "A lamp", amount: 90 });
  await open.keyboard.press("g");
  await open.keyboard.press("i");
  const question = open.getByRole("form").filter({ hasText: "A lamp" });
  await tabTo(open, question.getByLabel("reason"));
  await open.keyboard.type("It is dark");
  await tabTo(open, question.getByRole("button", { name: "approve" }));
  await open.keyboard.press("Enter");
  await expect(question).toHaveCount(0);
});
