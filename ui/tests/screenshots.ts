/** Makes the pictures of the README and the manual: `npm run screenshots`. */

import { resolve } from "node:path";

import { expect, test } from "./harness";

const FOLDER = resolve("../docs/src/pictures");
const FLAKY = `name: Sync orders
description: Reads the new orders of a shop, and keeps each as a page.
trigger: {schedule: {cron: "*/5 * * * *"}}
steps:
  - id: orders
    name: Read the orders
    action: http.request
    retry: {max: 3, delay: 200ms}
    timeout: 10s
    with: {method: GET, url: "http://127.0.0.1:1/orders"}
  - id: keep
    forEach: "steps.orders.results.body"
    steps:
      - {id: page, action: log.info, with: {message: "\${{ item.id }}"}}
`;

test.use({ viewport: { width: 1280, height: 760 }, deviceScaleFactor: 1 });

test("the pictures of the manual", async ({ open, daemon }) => {
  const picture = async (name: string) => {
    await open.waitForTimeout(700);
    await open.screenshot({ path: `${FOLDER}/${name}.png` });
  };
  await daemon.write("automations/sync-orders.yaml", FLAKY);
  for (const [id, body] of [
    ["page-from-webhook", { orderId: "4711", quantity: 2 }],
    ["page-from-webhook-async", { title: "Release 2.4", text: "What is new" }],
    ["approval", { what: "A new printer", amount: 1200 }],
    ["route-request", { kind: "count", words: ["a", "b", "c"] }],
  ] as const) {
    await daemon.send(id, body);
  }
  const failed = await daemon.run("sync-orders", { payload: {} });
  await open.goto(`${daemon.base}/`);
  await expect(open.getByText("Sync orders")).toBeVisible();
  await picture("automations");
  await open.goto(`${daemon.base}/executions/${failed}`);
  await expect(open.getByText("failed after 4 attempts")).toBeVisible();
  await picture("execution-failed");
  await open.goto(`${daemon.base}/inbox`);
  await expect(open.getByText("A new printer")).toBeVisible();
  await picture("inbox");
  await open.goto(`${daemon.base}/automations/page-from-webhook?tab=test`);
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await daemon.send("page-from-webhook", { orderId: "4712", quantity: 1 }, "testUrl");
  await expect(open.getByText("would start an execution")).toBeVisible();
  await picture("listening");
  await open.goto(`${daemon.base}/automations/sync-orders?tab=source`);
  const editor = open.getByRole("textbox", { name: "Text of the file" });
  await editor.click();
  await open.keyboard.press("Control+End");
  await open.keyboard.type("  - {id: done, action: log.info, with: {message: \"${{ steps.orderz.results.status }}\"}}");
  await expect(open.getByText("orderz").last()).toBeVisible();
  await picture("source");
});
