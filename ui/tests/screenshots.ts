/**
 * Makes the pictures of the README and the manual: `npm run screenshots`. With `LOOK=FOLDER` it also puts every page there, at 1440
 * and 360 pixels, light and dark, to look at.
 */

import { resolve } from "node:path";

import type { Page } from "@playwright/test";

import { Daemon, expect, login, test } from "./harness";
import { walk } from "./walk";

const FOLDER = resolve("../docs/src/pictures");
const LOOK = process.env.LOOK;
const SIZE = { width: 1280, height: 760 };
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

test.setTimeout(300_000);

/** Saves what the window shows, without motion. */
function camera(page: Page, folder: string) {
  return async (name: string): Promise<void> => {
    await page.mouse.move(0, 0);
    await page.screenshot({ path: `${folder}/${name}.png`, animations: "disabled", caret: "hide" });
  };
}

/** Creates executions of several kinds. Returns a failed one. */
async function examples(daemon: Daemon): Promise<string> {
  await daemon.write("automations/sync-orders.yaml", FLAKY);
  for (const [id, body] of [
    ["page-from-webhook", { orderId: "4711", quantity: 2 }],
    ["page-from-webhook-async", { title: "Release 2.4", text: "What is new" }],
    ["approval", { what: "A new printer", amount: 1200 }],
    ["route-request", { kind: "count", words: ["a", "b", "c"] }],
  ] as const) {
    await daemon.send(id, body);
  }
  return daemon.run("sync-orders", { payload: {} });
}

test("the pictures of the manual", async ({ open, daemon }) => {
  await open.setViewportSize(SIZE);
  const picture = camera(open, FOLDER);
  const failed = await examples(daemon);
  await open.goto(`${daemon.base}/`);
  await expect(open.getByText("Sync orders")).toBeVisible();
  await expect(open.getByRole("img", { name: /succeeded, 1 failed/ }).first()).toBeVisible();
  await picture("automations");
  await open.goto(`${daemon.base}/executions`);
  await expect(open.getByRole("row").nth(4)).toBeVisible();
  await picture("executions");
  await open.goto(`${daemon.base}/executions/${failed}`);
  await expect(open.getByText("failed after 4 attempts")).toBeVisible();
  await expect(open.getByRole("region", { name: "Attempts" })).toBeVisible();
  await picture("execution-failed");
  await open.goto(`${daemon.base}/inbox`);
  await expect(open.getByText("A new printer")).toBeVisible();
  await picture("inbox");
  await open.goto(`${daemon.base}/automations/page-from-webhook?tab=test`);
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByRole("timer")).toBeVisible();
  await daemon.send("page-from-webhook", { orderId: "4712", quantity: 1 }, "testUrl");
  await expect(open.getByText("would start an execution")).toBeVisible();
  await picture("listening");
  await open.goto(`${daemon.base}/automations/page-from-webhook?tab=test&drawer=configure`);
  await expect(open.getByLabel("Wait", { exact: true })).toBeVisible();
  await picture("configure");
  await open.goto(`${daemon.base}/automations/sync-orders?tab=source`);
  const editor = open.getByRole("textbox", { name: "Text of the file" });
  await editor.click();
  await open.keyboard.press("Control+End");
  await open.keyboard.type("  - {id: done, action: log.info, with: {message: \"${{ steps.orderz.results.status }}\"}}");
  await expect(open.getByRole("region", { name: "Problems" })).toContainText("orderz");
  await open.keyboard.press("Escape");
  await picture("source");
});

test("the pictures of the walk", async ({ stranger: page }) => {
  await page.setViewportSize(SIZE);
  const own = await new Daemon().start({}, "empty");
  try {
    await login(page, own);
    await walk(page, own, camera(page, FOLDER));
  } finally {
    await own.stop();
  }
});

/** With LOOK=FOLDER this script also makes a picture of every page at both widths, light and dark. */
const everyPage = LOOK === undefined ? () => {} : test;
everyPage("every page, to look at", async ({ open, daemon }) => {
  const failed = await examples(daemon);
  await daemon.api("PUT", "/state/shared/counter", { value: { orders: 17, last: "4711" } });
  const { executions } = (await daemon.api("GET", "/executions?automation=approval&limit=1")) as { executions: { id: string }[] };
  const { executionId } = (await daemon.api("POST", `/executions/${failed}/replay`, {})) as { executionId: string };
  const pages: Record<string, string> = {
    automations: "/",
    "automation-graph": "/automations/order-intake?tab=graph",
    "automation-both": "/automations/order-intake?tab=both&step=page",
    "automation-test": "/automations/page-from-webhook?tab=test",
    "automation-configure": "/automations/page-from-webhook?tab=test&drawer=configure",
    "automation-limits": "/automations/page-from-webhook?tab=test&drawer=limits",
    "automation-details": "/automations/page-from-webhook?tab=test&drawer=details",
    "automation-source": "/automations/approval?tab=source",
    "automation-tests": "/automations/page-from-webhook?tab=tests",
    "automation-versions": "/automations/page-from-webhook?tab=versions",
    "automation-executions": "/automations/approval?tab=executions",
    new: "/new",
    "new-from-execution": `/new?trigger=webhook&execution=${executions[0]?.id}`,
    "new-connection": "/new/connection",
    executions: "/executions",
    "execution-failed": `/executions/${failed}`,
    "execution-waiting": `/executions/${executions[0]?.id}`,
    compare: `/executions/${failed}/compare/${executionId}`,
    inbox: "/inbox",
    connections: "/connections",
    connectors: "/connectors",
    connector: "/connectors/wiki",
    state: "/state",
    status: "/status",
    access: "/access",
    audit: "/access?tab=audit",
    nowhere: "/automations/nowhere",
  };
  for (const [name, path] of Object.entries(pages)) {
    await open.setViewportSize({ width: 1440, height: 900 });
    await open.goto(daemon.base + path);
    await expect(open.getByRole("heading").or(open.getByRole("alert")).first()).toBeVisible();
    await expect(open.getByRole("status", { name: "Loading" })).toHaveCount(0);
    // A page has several reads, and no event that says that all of them are there.
    await open.waitForTimeout(400);
    for (const width of [1440, 360]) {
      await open.setViewportSize({ width, height: width === 360 ? 780 : 900 });
      for (const colorScheme of ["light", "dark"] as const) {
        await open.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        // The layout of a graph and of an editor follows the window.
        await open.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        await open.screenshot({ path: `${LOOK}/${name}-${width}-${colorScheme}.png`, fullPage: width === 360, animations: "disabled" });
      }
    }
  }
});
