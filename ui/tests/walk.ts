/** The walk of the manual: from an empty folder to a mended failure. It runs as a test, and makes the pictures of the chapter. */

import type { Page } from "@playwright/test";

import { type Daemon, expect } from "./harness";

/** The steps of the chapter, which take the place of those of the scaffold. */
const STEPS = `steps:
  - id: order
    set:
      id: \${{ trigger.results.body.data.id | default("unknown") }}
      amount: \${{ trigger.results.body.data.quantity * trigger.results.body.data.price }}

  - id: large
    if: vars.amount > 1000
    then:
      - id: decision
        waitFor:
          approval:
            message: Accept order \${{ vars.id }} for \${{ vars.amount }} €?
            options: [accept, refuse]

  - id: note
    action: log.info
    with:
      message: Order \${{ vars.id }} has come
`;
const MENDED = "amount: ${{ (trigger.results.body.data.quantity | default(1)) * (trigger.results.body.data.price | default(0)) }}";

/** Takes a picture of the page under a name; a test takes none. */
export type Picture = (name: string) => Promise<void>;

export async function walk(page: Page, daemon: Daemon, picture: Picture): Promise<void> {
  const editor = page.getByRole("textbox", { name: "Text of the file" });
  const onDisk = async () => ((await daemon.api("GET", "/files/automations%2Forder-intake.yaml")) as { text: string }).text;
  const replace = async (text: string) => {
    await editor.click();
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText(text);
    await page.keyboard.press("Control+Home");
  };

  await expect(page.getByText("No automation yet")).toBeVisible();
  await picture("tour-empty");

  await page.getByRole("link", { name: "New automation" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Order intake");
  await page.getByRole("radio", { name: /^Webhook/ }).check();
  await expect(page.getByRole("region", { name: "Preview of automations/order-intake.yaml" })).toContainText("webhook:");
  await picture("tour-new");
  await page.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("heading", { name: "Order intake" })).toBeVisible();

  await expect(page.getByRole("tab", { name: "Configure" })).toHaveAttribute("aria-selected", "true");
  await page.getByRole("tab", { name: "Test", exact: true }).click();
  await page.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(page.getByRole("timer")).toBeVisible();
  await daemon.send("order-intake", { id: "17", quantity: 2, price: 30 }, "testUrl");
  const listening = page.getByRole("region", { name: "Listening" });
  await expect(listening.getByText("would start an execution")).toBeVisible();
  await listening.getByLabel("Name").fill("first-order");
  await listening.getByRole("button", { name: "Save", exact: true }).click();
  await expect(listening.getByText("Saved as first-order.")).toBeVisible();
  await listening.scrollIntoViewIfNeeded();
  await picture("tour-capture");
  await page.getByRole("button", { name: "Exit listening mode" }).click();

  await page.getByRole("tab", { name: "Both" }).click();
  const scaffold = await onDisk();
  const end = scaffold.indexOf("# The result");
  await replace(scaffold.slice(0, scaffold.indexOf("steps:")) + STEPS + "\n" + scaffold.slice(end));
  await expect(page.getByRole("tree").getByText("large")).toBeVisible();
  await page.getByRole("button", { name: "Save …" }).click();
  await expect(page.getByText("executions in flight go on")).toBeVisible();
  await expect(page.getByText(/^\d of 2 passed$/)).toBeVisible();
  await picture("tour-save");
  await page.getByRole("button", { name: "Save now" }).click();
  await expect(page.getByText("Saved, and in force.")).toBeVisible();

  await page.getByRole("tab", { name: "Trigger and test" }).click();
  await page.getByRole("button", { name: "Run first-order" }).click();
  const strip = page.getByRole("region", { name: "Test executions" });
  await expect(strip.getByText("The execution succeeded")).toBeVisible();
  await expect(strip.getByRole("listitem")).toHaveCount(1);
  await strip.scrollIntoViewIfNeeded();
  await picture("tour-run");

  await daemon.send("order-intake", { id: "18", price: 30 });
  await page.getByRole("link", { name: "Executions" }).first().click();
  await page.getByRole("link", { name: /order-intake/i }).first().click();
  await expect(page.getByText("Step order failed")).toBeVisible();
  const failed = new URL(page.url()).pathname.split("/").pop() ?? "";
  await picture("tour-failed");

  await page.getByRole("link", { name: /automations\/order-intake\.yaml:\d+/ }).first().click();
  await expect(editor).toContainText("amount:");
  await replace((await onDisk()).replace(/amount: .*/, () => MENDED));
  await page.getByRole("button", { name: "Save …" }).click();
  await page.getByRole("button", { name: "Try on recorded executions" }).click();
  await expect(page.getByText("· 1 differs")).toBeVisible();
  await expect(page.getByText("Nothing was called")).toBeVisible();
  await picture("tour-trial");
  await page.getByRole("button", { name: "Save now" }).click();
  await expect(page.getByText("Saved, and in force.")).toBeVisible();

  await page.goto(`${daemon.base}/executions/${failed}`);
  await page.getByRole("button", { name: "Replay…" }).click();
  const sheet = page.getByRole("dialog", { name: /^Replay/ });
  await expect(sheet.getByText("No step calls another system.")).toBeVisible();
  await picture("tour-replay");
  await sheet.getByRole("button", { name: "Replay", exact: true }).click();
  await expect(page.getByText(/Succeeded after/)).toBeVisible();
  await page.getByRole("link", { name: "Compare" }).click();
  await expect(page.getByRole("list", { name: "Steps that differ" })).toBeVisible();
  await picture("tour-compare");

  await daemon.send("order-intake", { id: "19", quantity: 100, price: 30 });
  await page.getByRole("link", { name: "Inbox" }).first().click();
  const question = page.getByRole("form").filter({ hasText: "Accept order 19 for 3000 €?" });
  await expect(question).toBeVisible();
  await expect(page.getByRole("navigation").getByRole("link", { name: "Inbox 1" })).toBeVisible();
  await picture("tour-question");
  await question.getByRole("button", { name: "accept" }).click();
  await expect(question.getByRole("status")).toContainText("Answered accept");
  await page.mouse.move(0, 0);
  await expect(page.getByText("Nothing waits for a person")).toBeVisible();
}
