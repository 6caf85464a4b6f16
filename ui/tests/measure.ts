/**
 * Measures the pages against their budgets: `npm run measure`. The daemon is real; a released one gives the figures of the
 * manual: `COGWORK_BIN=…/target/dist npm run measure`. `EXECUTIONS`, `AUTOMATIONS` and `UPDATES` change the sizes.
 */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { type Daemon, expect, test } from "./harness";

const EXECUTIONS = Number(process.env.EXECUTIONS ?? 100_000);
const AUTOMATIONS = Number(process.env.AUTOMATIONS ?? 10_000);
/** Executions a second while the list is watched, each with several updates. */
const UPDATES = Number(process.env.UPDATES ?? 1000);
const SECONDS = 10;
/** Requests at one time. */
const AT_ONCE = 32;
const STEPS = 1000;
const PAYLOAD_MB = 5;
/** Loads of a page, of which the median counts. */
const LOADS = 5;
const TINY = "trigger: {webhook: {}}\nsteps: [{stop: {result: 1}}]\n";

test.describe.configure({ mode: "serial" });
test.setTimeout(480_000);

/** Sends requests until `count` are answered, at most `rate` a second. */
async function send(url: string, count: number, rate = Infinity): Promise<void> {
  const began = performance.now();
  let sent = 0;
  const worker = async () => {
    while (sent < count) {
      const due = began + (sent / rate) * 1000;
      sent += 1;
      const early = due - performance.now();
      if (early > 0) {
        await new Promise((done) => setTimeout(done, early));
      }
      await (await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" })).text();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** Scrolls to the end of what there is, screen by screen, and returns the times between frames in milliseconds. */
async function scrolled(page: Page, rows: number): Promise<number[]> {
  return page.evaluate(async (most) => {
    const frames: number[] = [];
    let last = await new Promise<number>(requestAnimationFrame);
    const read = () => Number(document.querySelector("[role=table]")?.getAttribute("aria-rowcount") ?? 0);
    let still = 0;
    while (still < 300) {
      const before = scrollY;
      scrollBy(0, innerHeight * 0.9);
      const now = await new Promise<number>(requestAnimationFrame);
      frames.push(now - last);
      last = now;
      still = scrollY === before ? still + 1 : 0;
      if (read() >= most && still > 5) {
        break;
      }
    }
    return frames;
  }, rows);
}

const part = (values: number[], which: number) => [...values].sort((a, b) => a - b)[Math.floor(values.length * which)] ?? 0;
const median = (values: number[]) => Math.round(part(values, 0.5));

/** The time in milliseconds from the navigation until `ready` is visible. */
async function visible(page: Page, address: string, ready: (page: Page) => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await page.goto(address);
  await ready(page);
  return performance.now() - began;
}

/** The bytes of the answers of the API to a page, as they are when unpacked, without the stream. */
async function received(page: Page): Promise<number> {
  return page.evaluate(() => {
    const answers = performance.getEntriesByType("resource") as PerformanceResourceTiming[];
    const ofApi = answers.filter(({ name }) => name.includes("/api/v1/") && !name.includes("/stream"));
    return ofApi.reduce((sum, { decodedBodySize }) => sum + decodedBodySize, 0);
  });
}

async function liveUrl(daemon: Daemon, id: string): Promise<string> {
  return ((await daemon.api("GET", `/automations/${id}`)) as { liveUrl: string }).liveUrl;
}

test("pages of a small project", async ({ open, browser, daemon }) => {
  await daemon.send("route-request", { kind: "count", words: ["a"] });
  const row = (page: Page) => expect(page.getByRole("row").nth(1)).toBeVisible();
  for (const [path, ready] of [
    ["/", row],
    ["/executions", row],
    ["/automations/order-intake?tab=both", (page: Page) => expect(page.getByRole("textbox", { name: "Text of the file" })).toBeVisible()],
  ] as const) {
    const times = [];
    for (let load = 0; load < LOADS; load += 1) {
      times.push(await visible(open, daemon.base + path, ready));
    }
    console.log(`${path} with a warm cache: visible after ${median(times)} ms`);
  }
  const cold = [];
  let requests = 0;
  for (let load = 0; load < LOADS; load += 1) {
    const context = await browser.newContext();
    const page = await context.newPage();
    requests = 0;
    page.on("request", () => (requests += 1));
    cold.push(await visible(page, await daemon.link(), row));
    await context.close();
  }
  console.log(`login and first page with a cold cache: visible after ${median(cold)} ms, ${requests} requests`);
});

test("a graph of many steps, and the last key before a mark", async ({ open, daemon }) => {
  const steps = Array.from({ length: STEPS }, (_, index) => `  - {id: s${index}, set: {x: ${index}}}\n`).join("");
  await daemon.write("automations/long.yaml", `trigger: {manual: {}}\nsteps:\n${steps}`);
  const shown = await visible(open, `${daemon.base}/automations/long?tab=graph`, (page) => expect(page.getByRole("treeitem").nth(STEPS - 1)).toBeAttached());
  console.log(`graph of ${STEPS} steps: visible after ${Math.round(shown)} ms`);
  await open.goto(`${daemon.base}/automations/order-intake?tab=source`);
  await open.getByRole("textbox", { name: "Text of the file" }).click();
  await open.keyboard.press("Control+End");
  const marks = [];
  for (let round = 0; round < LOADS; round += 1) {
    await open.keyboard.type("\nwrong");
    const began = performance.now();
    await open.keyboard.type(":");
    await expect(open.locator(".cm-lintRange-error").first()).toBeAttached();
    marks.push(performance.now() - began);
    for (let key = 0; key < "\nwrong:".length; key += 1) {
      await open.keyboard.press("Backspace");
    }
    await expect(open.locator(".cm-lintRange-error")).toHaveCount(0);
  }
  console.log(`last key to its mark: ${median(marks)} ms`);
});

test("a large payload", async ({ open, daemon }) => {
  await daemon.write("automations/heavy.yaml", "trigger: {webhook: {mode: sync}}\nsteps: [{id: done, stop: {result: 1}}]\n");
  const rows = Array.from({ length: PAYLOAD_MB * 1024 }, (_, index) => ({ index, text: "x".repeat(1000) }));
  const answer = await fetch(await liveUrl(daemon, "heavy"), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ rows }),
  });
  const id = answer.headers.get("x-execution-id") ?? "";
  const panel = open.getByRole("region", { name: "Inspector" });
  const shown = await visible(open, `${daemon.base}/executions/${id}?step=trigger&tab=input`, () =>
    expect(panel.getByRole("button", { name: "Load" }).first()).toBeVisible(),
  );
  console.log(`payload of ${PAYLOAD_MB} MB: visible after ${Math.round(shown)} ms, ${Math.round((await received(open)) / 1024)} KB before Load`);
  const began = performance.now();
  await panel.getByRole("button", { name: "Load" }).first().click();
  await expect(panel.getByRole("treeitem").filter({ hasText: `[${rows.length}]` })).toBeVisible();
  const loaded = Math.round(performance.now() - began);
  console.log(`payload of ${PAYLOAD_MB} MB: loaded after ${loaded} ms, ${Math.round((await received(open)) / 1024)} KB`);
});

test("many executions, and many updates", async ({ open, daemon }) => {
  await daemon.write("automations/tiny.yaml", TINY);
  const url = await liveUrl(daemon, "tiny");
  const before = performance.now();
  await send(url, EXECUTIONS);
  console.log(`${EXECUTIONS} executions accepted in ${Math.round((performance.now() - before) / 1000)} s`);
  await open.goto(`${daemon.base}/executions`);
  await expect(open.getByRole("row").nth(20)).toBeVisible();
  const frames = await scrolled(open, EXECUTIONS);
  const rows = await open.getByRole("row").count();
  console.log(
    `${EXECUTIONS} executions scrolled: ${frames.length} frames, p50 ${part(frames, 0.5).toFixed(1)} ms, p99 ${part(frames, 0.99).toFixed(1)} ms, ${rows} rows in the page`,
  );

  await open.goto(`${daemon.base}/executions`);
  await expect(open.getByRole("row").nth(20)).toBeVisible();
  const session = await open.context().newCDPSession(open);
  await session.send("Performance.enable");
  const busy = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0;
  };
  const [first, began] = [await busy(), performance.now()];
  await send(url, UPDATES * SECONDS, UPDATES);
  const seconds = (performance.now() - began) / 1000;
  const share = ((await busy()) - first) / seconds;
  console.log(`${Math.round((UPDATES * SECONDS) / seconds)} executions a second, watched: main thread ${(share * 100).toFixed(1)} %`);
});

test("many automations", async ({ open, daemon }) => {
  mkdirSync(join(daemon.folder, "automations"), { recursive: true });
  for (let index = 0; index < AUTOMATIONS; index += 1) {
    writeFileSync(join(daemon.folder, "automations", `many-${index}.yaml`), `name: Automation ${index}\n${TINY}`);
  }
  const began = performance.now();
  await daemon.api("POST", "/reload", {});
  console.log(`${AUTOMATIONS} automations taken in ${Math.round(performance.now() - began)} ms`);
  const shown = await visible(open, daemon.base, (page) => expect(page.getByRole("row").nth(10)).toBeVisible());
  const frames = await scrolled(open, AUTOMATIONS);
  const filtered = performance.now();
  await open.keyboard.press("/");
  await open.keyboard.type(`many-${AUTOMATIONS - 1}`);
  await expect(open.getByRole("row")).toHaveCount(2);
  console.log(
    `${AUTOMATIONS} automations: visible after ${Math.round(shown)} ms, scrolled p99 ${part(frames, 0.99).toFixed(1)} ms, filtered after ${Math.round(performance.now() - filtered)} ms`,
  );
});
