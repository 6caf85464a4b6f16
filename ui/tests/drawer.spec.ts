/** The drawer of a trigger: addresses, listening, payloads, and what runs with them came of. */

import { type Daemon, expect, test } from "./harness";
import { draw } from "./look";

const HOOK = (id: string) => `name: ${id}
trigger: {webhook: {mode: sync, verify: none}}
steps:
  - {id: out, set: {n: "\${{ trigger.results.body.data.n }}"}}
  - {respond: {status: 201, json: "\${{ steps.out.results }}"}}
`;

/** An automation of a test's own, so that tests run beside each other. */
async function hook(daemon: Daemon, id: string, text = HOOK(id)): Promise<string> {
  await daemon.write(`automations/${id}.yaml`, text);
  return `${daemon.base}/automations/${id}?tab=test`;
}

test("a request is captured, saved and run, and its response is shown as the caller gets it", async ({ open, daemon }) => {
  await open.goto(await hook(daemon, "drawer-listen"));
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByRole("timer")).toContainText("room for 100 of 100");
  await expect(open.getByText("Nothing was captured yet.")).toBeVisible();
  await expect(open.getByRole("link", { name: "Listening: drawer-listen" })).toBeVisible();
  await daemon.send("drawer-listen", { n: 7 }, "testUrl");
  const listening = open.getByRole("region", { name: "Listening" });
  await expect(listening.getByText("would start an execution")).toBeVisible();
  await expect(listening.getByText("captured", { exact: true })).toBeVisible();
  await draw(open, "listening, captured");
  await listening.getByLabel("Name").fill("seven");
  await listening.getByRole("button", { name: "Save", exact: true }).click();
  await expect(listening.getByText("Saved as seven.")).toBeVisible();
  await open.getByRole("button", { name: "Exit listening mode" }).click();
  await expect(open.getByText("The captures stay until you listen again")).toBeVisible();
  await draw(open, "listening, ended");
  await open.getByRole("button", { name: "Run seven" }).click();
  const strip = open.getByRole("region", { name: "Test executions" });
  await expect(strip.getByText("The execution succeeded")).toBeVisible();
  await expect(strip.getByText("HTTP response, as the caller gets it")).toBeVisible();
  await expect(strip.getByText("201", { exact: true })).toBeVisible();
  await strip.getByRole("link", { name: "open it" }).click();
  await expect(open.getByRole("heading", { name: "drawer-listen" })).toBeVisible();
});

test("a listen session outlives its page, and the next one shows the captures", async ({ open, daemon }) => {
  const address = await hook(daemon, "drawer-closed");
  await open.goto(address);
  await open.getByRole("button", { name: "Enter listening mode" }).click();
  await expect(open.getByRole("timer")).toBeVisible();
  await open.goto(`${daemon.base}/status`);
  await daemon.send("drawer-closed", { n: 1 }, "testUrl");
  await open.getByRole("link", { name: "Listening: drawer-closed" }).click();
  await expect(open.getByText("would start an execution")).toBeVisible();
  await open.getByRole("button", { name: "Exit listening mode" }).click();
  await expect(open.getByRole("link", { name: "Listening: drawer-closed" })).toBeHidden();
});

test("a listen session started elsewhere is shown with its captures", async ({ open, daemon }) => {
  await open.goto(await hook(daemon, "drawer-elsewhere"));
  await expect(open.getByRole("button", { name: "Enter listening mode" })).toBeVisible();
  await daemon.api("POST", "/automations/drawer-elsewhere/listen", {});
  await expect(open.getByRole("button", { name: "Exit listening mode" })).toBeVisible();
  await daemon.send("drawer-elsewhere", { n: 1 }, "testUrl");
  await expect(open.getByText("would start an execution")).toHaveCount(1);
  await daemon.api("DELETE", "/automations/drawer-elsewhere/listen");
  await expect(open.getByText("The captures stay until you listen again")).toBeVisible();
});

test("a payload is configured beside its results, saved, renamed, edited and deleted", async ({ open, daemon }) => {
  await open.goto(await hook(daemon, "drawer-payload"));
  const saved = open.getByRole("region", { name: "Saved payloads" });
  await expect(saved.getByText("No payload is saved")).toBeVisible();
  await saved.getByRole("button", { name: "+ New" }).click();
  const sheet = open.getByRole("dialog", { name: "Configure payload" });
  const results = sheet.getByRole("region", { name: "What steps would read" });
  await sheet.getByLabel("Path fragment").fill("a/b");
  await sheet.getByRole("button", { name: "+ parameter" }).click();
  await sheet.getByLabel("parameter 1 name").fill("x");
  await sheet.getByLabel("parameter 1 value").fill("1 2");
  await sheet.getByRole("textbox", { name: "Body" }).fill('{"n": 41');
  await expect(sheet.getByText("not JSON")).toBeVisible();
  await expect(results.getByText("bad_json")).toBeVisible();
  await sheet.getByRole("textbox", { name: "Body" }).fill('{"n": 42}');
  const number = results.getByRole("treeitem").filter({ hasText: /^\s*n\s*42\s*$/ });
  await expect(number).toBeVisible();
  await expect(results.getByText('"a/b"')).toBeVisible();
  await open.context().grantPermissions(["clipboard-write"]);
  await number.click();
  await expect(results.getByText("Copied.")).toBeVisible();
  await expect(results.getByText("trigger.results.body.data.n")).toBeVisible();
  await sheet.getByLabel("Name", { exact: true }).fill("answer");
  await sheet.getByRole("button", { name: "Save", exact: true }).click();
  await expect(saved.getByText("POST application/json")).toBeVisible();
  const choose = async (payload: string, action: string) => {
    await saved.getByRole("button", { name: `More of ${payload}`, exact: true }).click();
    await saved.getByRole("menuitem", { name: action }).click();
  };
  await choose("answer", "Rename …");
  await expect(saved.getByLabel("New name of answer")).toBeFocused();
  await saved.getByLabel("New name of answer").fill("the-answer");
  await saved.getByRole("button", { name: "Rename", exact: true }).click();
  await choose("the-answer", "Edit …");
  await expect(sheet.getByRole("textbox", { name: "Body" })).toHaveValue('{"n": 42}');
  await sheet.getByLabel("Content type").selectOption("multipart");
  await sheet.getByLabel("Part 1 name").fill("n");
  await sheet.getByLabel("Part 1 value").fill("hello");
  await expect(results.getByText("multipart/form-data; boundary").first()).toBeVisible();
  await sheet.getByRole("button", { name: "Run", exact: true }).click();
  await expect(open.getByRole("region", { name: "Test executions" }).getByText("The execution succeeded")).toBeVisible();
  await choose("the-answer", "Delete …");
  await saved.getByRole("button", { name: "Delete for good" }).click();
  await expect(saved.getByText("No payload is saved")).toBeVisible();
});

test("a rotated address is gone, and the page shows the new one", async ({ open, daemon }) => {
  await open.goto(await hook(daemon, "drawer-rotate"));
  const before = await open.getByLabel("Test URL", { exact: true }).inputValue();
  await open.getByRole("button", { name: "curl for the test URL" }).click();
  await expect(open.getByText(`curl -i -X POST '${before}'`)).toBeVisible();
  await open.getByRole("button", { name: "Rotate… the test URL" }).click();
  const sheet = open.getByRole("dialog");
  await expect(sheet.getByText("unknown_trigger")).toBeVisible();
  await open.keyboard.press("Escape");
  await expect(sheet).toBeHidden();
  await open.getByRole("button", { name: "Rotate… the test URL" }).click();
  await sheet.getByRole("button", { name: "Replace the test address" }).click();
  await expect(open.getByLabel("Test URL", { exact: true })).not.toHaveValue(before);
  expect((await fetch(before, { method: "POST" })).status).toBe(404);
});

test("a schedule runs now and as of a given time", async ({ open, daemon }) => {
  const text = `trigger: {schedule: {daily: {at: "08:30"}}}
steps: [{id: at, set: {at: "\${{ trigger.results.scheduledAt }}"}}]
`;
  await open.goto(await hook(daemon, "drawer-schedule", text));
  await open.getByLabel("as of").fill("2026-01-02T03:04:05");
  await open.getByRole("button", { name: "Run as of this instant" }).click();
  const strip = open.getByRole("region", { name: "Test executions" });
  await expect(strip.getByText("The execution succeeded")).toBeVisible();
  await open.getByRole("button", { name: "Run now" }).click();
  await expect(strip.getByRole("listitem")).toHaveCount(2);
});

test("the resume page looks like the web UI, without a script, and answers", async ({ open, daemon, browser }) => {
  await daemon.send("approval", { what: "A desk", amount: 700 });
  await open.goto(`${daemon.base}/inbox`);
  await expect(open.getByRole("form").filter({ hasText: "A desk" })).toContainText("left");
  const { executions } = (await daemon.api("GET", "/executions?automation=approval&status=waiting&limit=1")) as {
    executions: { id: string }[];
  };
  const { waiting } = (await daemon.api("GET", `/executions/${executions[0]?.id}`)) as { waiting: { resumeUrl: string } };
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  for (const [width, colorScheme] of [[1440, "light"], [360, "dark"]] as const) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await page.goto(waiting.resumeUrl);
    await expect(page.getByRole("heading", { level: 1 })).toContainText("A desk");
    const ground = await page.locator("main").evaluate((main) => getComputedStyle(main).backgroundColor);
    expect(ground).toBe(colorScheme === "light" ? "rgb(255, 255, 255)" : "rgb(20, 22, 26)");
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  }
  await page.getByLabel("reason").fill("we sit");
  await page.getByRole("button").last().click();
  await expect(page.getByText("Answered")).toBeVisible();
  await context.close();
});
