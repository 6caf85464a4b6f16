/** The lists: automations, executions, state, status, connections, connectors; navigation, palette, keyboard, one stream. */

import type { Page } from "@playwright/test";

import { Daemon, expect, login, test } from "./harness";
import { draw } from "./look";

// Lists are short here: other files leave hundreds of executions.
test.use({ own: "lists" });

const QUICK = "labels: [quick]\ntrigger: {manual: {}}\ninputs: {word: {type: text}}\nsteps: [{id: said, set: {word: \"${{ inputs.word }}\"}}]\n";
const BROKEN = "trigger: {manual: {}}\nsteps: [{id: broken, fail: Out of paper}]\n";

const row = (page: Page, name: string | RegExp) => page.getByRole("row").filter({ has: page.getByRole("link", { name }) });

test("automations show their statistics, and every filter is in the URL", async ({ open, daemon }) => {
  await daemon.write("automations/quick.yaml", QUICK);
  await daemon.write("automations/breaks.yaml", BROKEN);
  await daemon.run("quick", { inputs: { word: "a" } });
  await daemon.run("breaks", {});
  // Rows that are out of sight are not drawn.
  await open.goto(`${daemon.base}/?q=quick`);
  await expect(row(open, "quick")).toContainText("100 %");
  await open.goto(`${daemon.base}/?q=breaks`);
  await expect(row(open, "breaks")).toContainText("0 %");
  await expect(row(open, "breaks").getByRole("img", { name: "0 succeeded, 1 failed in 24 hours" })).toBeVisible();
  await open.goto(daemon.base);
  await open.getByLabel("Label").selectOption("quick");
  await expect(open.getByRole("row")).toHaveCount(2);
  await open.getByLabel("Trigger").selectOption("manual");
  expect(new URL(open.url()).search).toBe("?label=quick&trigger=manual");
  await open.getByLabel("State").selectOption("active");
  await open.reload();
  await expect(open.getByRole("row")).toHaveCount(2);
});

test("executions are opened, selected and stepped through by keyboard alone", async ({ open, daemon }) => {
  await daemon.write("automations/keyboard.yaml", QUICK);
  const ids = [];
  for (const word of ["one", "two", "three"]) {
    ids.unshift(await daemon.run("keyboard", { inputs: { word } }));
  }
  await open.goto(`${daemon.base}/executions?automation=keyboard`);
  await expect(open.getByRole("row")).toHaveCount(4);
  await open.keyboard.press("j");
  await open.keyboard.press("x");
  await open.keyboard.press("j");
  await open.keyboard.press("j");
  await open.keyboard.press("Shift+X");
  await expect(open.getByText("3 selected")).toBeVisible();
  await open.keyboard.press("Escape");
  await expect(open.getByText("3 selected")).toBeHidden();
  await open.keyboard.press("k");
  await open.keyboard.press("Enter");
  await expect(open).toHaveURL(`${daemon.base}/executions/${ids[1]}`);
  await open.keyboard.press("]");
  await expect(open).toHaveURL(`${daemon.base}/executions/${ids[2]}`);
  await open.keyboard.press("[");
  await expect(open).toHaveURL(`${daemon.base}/executions/${ids[1]}`);
});

test("origin and tests are filters beside the others", async ({ open, daemon }) => {
  await daemon.write("automations/origins.yaml", QUICK);
  await daemon.run("origins", { inputs: { word: "real" } });
  await daemon.run("origins", { inputs: { word: "test" }, test: true });
  await open.goto(`${daemon.base}/executions?automation=origins`);
  await expect(open.getByRole("row")).toHaveCount(2);
  await open.getByRole("checkbox", { name: "tests" }).check();
  await expect(open.getByRole("row")).toHaveCount(3);
  await open.getByLabel("Started by", { exact: true }).selectOption("test");
  await expect(open.getByRole("row")).toHaveCount(2);
  await open.getByLabel("Started by", { exact: true }).selectOption("schedule");
  await expect(open.getByText("No execution matches")).toBeVisible();
});

test("a narrow window shows the active filters, and the others on demand", async ({ open, daemon }) => {
  await open.setViewportSize({ width: 360, height: 800 });
  await open.goto(`${daemon.base}/executions?status=failed`);
  await expect(open.getByLabel("Status")).toBeVisible();
  await expect(open.getByLabel("Started by", { exact: true })).toBeHidden();
  await open.getByRole("button", { name: "More filters" }).click();
  await open.getByLabel("Started by", { exact: true }).selectOption("manual");
  await open.getByRole("button", { name: "More filters" }).click();
  await expect(open.getByLabel("Started by", { exact: true })).toBeVisible();
  await expect(open.getByLabel("Time", { exact: true })).toBeHidden();
});

test("executions are searched by text and by failed step", async ({ open, daemon }) => {
  await daemon.write("automations/words.yaml", QUICK);
  await daemon.write("automations/fails.yaml", BROKEN);
  await daemon.run("words", { inputs: { word: "hippopotamus" } });
  await daemon.run("words", { inputs: { word: "zebra" } });
  await daemon.run("fails", {});
  await open.goto(`${daemon.base}/executions`);
  await expect(row(open, "words").first()).toBeVisible();
  await open.keyboard.press("/");
  await open.keyboard.type("hippopotamus");
  await expect(open.getByRole("row")).toHaveCount(2);
  await expect(row(open, "words")).toBeVisible();
  await open.goto(`${daemon.base}/executions?failedStep=broken&automation=fails`);
  await expect(row(open, "fails").first()).toContainText("Out of paper");
  await open.getByLabel("Waits for").selectOption("approval");
  await expect(open.getByText("No execution matches")).toBeVisible();
});

test("a failed execution shows the attempt, and the replay button the number of replays", async ({ open, daemon }) => {
  const text = "trigger: {manual: {}}\nsteps:\n  - {id: get, retry: {max: 2, delay: 1ms, on: [all]}, fail: No paper}\n";
  await daemon.write("automations/tries.yaml", text);
  for (let count = 0; count < 3; count += 1) {
    await daemon.run("tries", {});
  }
  await open.goto(`${daemon.base}/executions?automation=tries`);
  await expect(open.getByText(/^3 found/)).toBeVisible();
  await expect(row(open, "tries").first()).toContainText("attempt 3/3");
  await expect(open.getByRole("button", { name: "Replay 3…" })).toBeVisible();
  await open.getByRole("checkbox", { name: /^Select tries/ }).first().check();
  await expect(open.getByRole("button", { name: "Replay 1…" })).toBeVisible();
  await open.goto(`${daemon.base}/automations/tries?tab=executions`);
  await expect(row(open, /./).first()).toContainText("attempt 3/3 of step get");
});

test("new executions are held back while the list is scrolled down", async ({ open, daemon }) => {
  await daemon.write("automations/many.yaml", QUICK);
  const start = () => daemon.api("POST", "/automations/many/run", { inputs: { word: "x" } });
  for (let batch = 0; batch < 8; batch += 1) {
    await Promise.all(Array.from({ length: 10 }, start));
  }
  await open.goto(`${daemon.base}/executions?automation=many`);
  await expect(open.getByText(/^80 found/)).toBeVisible();
  await open.evaluate(() => scrollTo(0, document.body.scrollHeight));
  expect(await open.locator("[role=row]").count()).toBeLessThan(70);
  await start();
  await open.getByRole("button", { name: "1 new" }).click();
  await expect(open.getByText(/^81 found/)).toBeVisible();
  expect(await open.evaluate(() => scrollY)).toBe(0);
});

test("tabs share one stream, and both are live", async ({ open, daemon, context }) => {
  await daemon.write("automations/shared-stream.yaml", QUICK);
  await open.goto(`${daemon.base}/executions?automation=shared-stream`);
  await expect(open.getByText("live", { exact: true })).toBeVisible();
  const second = await context.newPage();
  const streams: string[] = [];
  second.on("request", (request) => request.url().includes("/api/v1/stream") && streams.push(request.url()));
  await second.goto(`${daemon.base}/executions?automation=shared-stream`);
  await expect(second.getByText("live", { exact: true })).toBeVisible();
  await daemon.run("shared-stream", { inputs: { word: "a" } });
  await expect(row(open, "shared-stream")).toBeVisible();
  await expect(row(second, "shared-stream")).toBeVisible();
  expect(streams).toEqual([]);
  // The remaining tab takes over the stream, from the last event that it has seen.
  await open.close();
  await daemon.run("shared-stream", { inputs: { word: "b" } });
  await expect(row(second, "shared-stream")).toHaveCount(2);
  expect(streams).toHaveLength(1);
});

test("a state value is created, changed and deleted", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/state`);
  await open.getByRole("button", { name: "New value" }).click();
  await open.getByLabel("Key", { exact: true }).fill("greeting");
  await open.getByLabel("Value as JSON").fill("hello");
  await open.getByRole("button", { name: "Keep", exact: true }).click();
  await expect(open.getByText("A text stands in quotes.")).toBeVisible();
  await open.getByLabel("Value as JSON").fill('{"text": "hello"}');
  await open.getByRole("button", { name: "Keep", exact: true }).click();
  const value = open.getByRole("region", { name: "greeting" });
  await expect(value).toContainText("hello");
  await value.getByRole("button", { name: "Edit" }).click();
  await open.getByLabel("Value as JSON").fill("42");
  await open.getByRole("button", { name: "Keep", exact: true }).click();
  await expect(value).toContainText("42");
  await value.getByRole("button", { name: "Delete" }).click();
  await value.getByRole("button", { name: "Delete", exact: true }).click();
  await expect(open.getByText("No value in this scope")).toBeVisible();
});

test("the status shows the rejected requests", async ({ open, daemon }) => {
  const found = (await daemon.api("GET", "/automations/page-from-webhook")) as { liveUrl: string };
  await fetch(`${found.liveUrl}/lost`, { method: "POST", headers: { "content-type": "application/json" }, body: "{" });
  await open.goto(`${daemon.base}/status`);
  await expect(open.getByText(daemon.folder, { exact: true })).toBeVisible();
  await expect(open.getByText(`${daemon.folder}/.cogwork/cogwork.db`)).toBeVisible();
  await open.getByLabel("The latest of").selectOption("page-from-webhook");
  const refused = open.getByRole("region", { name: "Requests that started nothing" });
  await expect(refused.getByRole("row", { name: /bad_json/ }).first()).toContainText("POST /lost");
});

test("the palette and the key map are reached by keyboard, and Esc closes them", async ({ home: open, daemon }) => {
  await open.keyboard.press("Control+k");
  await open.keyboard.type("page from web");
  await expect(open.getByRole("dialog").getByRole("option").first()).toContainText("page-from-webhook");
  await open.keyboard.press("Enter");
  await expect(open).toHaveURL(/automations\/page-from-webhook/);
  await open.goto(daemon.base);
  await open.keyboard.press("?");
  await expect(open.getByRole("dialog", { name: "Keyboard" })).toBeVisible();
  await open.keyboard.press("Escape");
  await expect(open.getByRole("dialog")).toHaveCount(0);
  await open.keyboard.press("g");
  await open.keyboard.press("t");
  await expect(open.getByRole("heading", { name: "State" })).toBeVisible();
});

test("the navigation is a rail, icons or a bar by the width of the window", async ({ home: open }) => {
  const links = open.getByRole("navigation").getByRole("link");
  await open.setViewportSize({ width: 800, height: 800 });
  await expect(links.filter({ hasText: "State" })).toBeVisible();
  expect((await open.getByRole("navigation").boundingBox())?.width).toBeLessThan(60);
  await open.setViewportSize({ width: 360, height: 800 });
  await expect(links.filter({ hasText: "State" })).toHaveCount(0);
  await open.getByRole("button", { name: "More" }).click();
  await links.filter({ hasText: "State" }).last().click();
  await expect(open.getByRole("heading", { name: "State" })).toBeVisible();
});

test("a connector shows the inputs and the result of its actions", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/connectors/wiki`);
  await open.getByText("wiki.createPage", { exact: true }).click();
  await expect(open.getByRole("row", { name: /title/ }).first()).toContainText("text");
  await expect(open.locator("details[open]").getByText("Result", { exact: true })).toBeVisible();
});

test("a read-only daemon says why nothing can be saved", async ({ stranger: page }) => {
  const daemon = await new Daemon().start({ COGWORK_UI_READ_ONLY: "true" });
  await login(page, daemon);
  await page.goto(`${daemon.base}/automations/approval?tab=source`);
  await expect(page.getByText("its setting ui.readOnly is on")).toBeVisible();
  await page.getByRole("textbox", { name: "Text of the file" }).click();
  await page.keyboard.type("# x");
  await expect(page.getByRole("button", { name: "Save …" })).toBeDisabled();
  await draw(page, "read-only daemon");
  await daemon.stop();
});

test("the inbox pages the questions of all executions and keeps the pages while answering", async ({ open, daemon }) => {
  await daemon.write("automations/asks.yaml", "trigger: {manual: {}}\nsteps: [{id: ask, waitFor: {approval: {message: May I?}}}]\n");
  const start = () => daemon.api("POST", "/automations/asks/run", {});
  const counted = async () =>
    ((await daemon.api("GET", "/executions?automation=asks&waitingFor=approval&limit=100")) as { executions: unknown[] }).executions.length;
  for (let count = 0; count < 53; count += 1) {
    await start();
  }
  await expect.poll(counted).toBe(53);
  await open.goto(`${daemon.base}/inbox`);
  const questions = open.getByRole("main").getByRole("form").filter({ hasText: "May I?" });
  await expect(questions).toHaveCount(50);
  await expect(open.getByRole("link", { name: /Inbox/ })).toContainText("53");
  await open.getByRole("button", { name: "Show more" }).click();
  await expect(questions).toHaveCount(53);
  await expect(open.getByRole("button", { name: "Show more" })).toHaveCount(0);
  await questions.last().getByRole("button", { name: "approve" }).click();
  await expect(questions.last().getByRole("status")).toContainText("Answered approve");
  await open.mouse.move(0, 0);
  await expect(questions).toHaveCount(52);
  await daemon.api("POST", "/executions/bulk", { action: "cancel", filter: { automation: "asks" } });
});

test("the exact instant is available by pointer, keyboard and touch", async ({ open, daemon, browser }) => {
  await daemon.write("automations/timed.yaml", QUICK);
  const id = await daemon.run("timed", { inputs: { word: "now" } });
  const { startedAt } = (await daemon.api("GET", `/executions/${id}`)) as { startedAt: string };
  await open.goto(`${daemon.base}/executions/${id}`);
  const tip = open.getByRole("tooltip");
  const time = open.locator(".head time");
  await time.hover();
  await expect(tip).toContainText(startedAt);
  await open.mouse.move(0, 0);
  await expect(tip).toHaveCount(0);
  await open.locator(".head h1 a").last().focus();
  await open.keyboard.press("Tab");
  await expect(time).toBeFocused();
  await expect(tip).toContainText(startedAt);
  await expect(time).toHaveAccessibleDescription(new RegExp(startedAt.replaceAll(".", "\\.")));
  await open.keyboard.press("Escape");
  await expect(tip).toHaveCount(0);
  // In a long list the link of the row shows the instant of the row.
  await open.goto(`${daemon.base}/executions?automation=timed`);
  await open.getByRole("checkbox", { name: /Select timed/ }).focus();
  await open.keyboard.press("Tab");
  await expect(tip).toContainText(startedAt);
  const touch = await browser.newContext({ viewport: { width: 360, height: 740 }, hasTouch: true });
  const page = await touch.newPage();
  await login(page, daemon);
  await page.goto(`${daemon.base}/executions/${id}`);
  await page.locator(".head time").tap();
  await expect(page.getByRole("tooltip")).toContainText(startedAt);
  await touch.close();
});
