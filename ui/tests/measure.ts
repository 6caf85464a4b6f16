/**
 * Measures the lists against their budgets: `npm run measure`. The daemon is real; a released one gives the figures of the
 * manual: `COGWORK_BIN=…/target/dist npm run measure`. `EXECUTIONS`, `AUTOMATIONS` and `UPDATES` change the sizes.
 */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { expect, test } from "./harness";

const EXECUTIONS = Number(process.env.EXECUTIONS ?? 100_000);
const AUTOMATIONS = Number(process.env.AUTOMATIONS ?? 10_000);
/** Executions a second while the list is watched, each with several updates. */
const UPDATES = Number(process.env.UPDATES ?? 1000);
const SECONDS = 10;
/** Requests at one time. */
const AT_ONCE = 32;
const TINY = "trigger: {webhook: {}}\nsteps: [{stop: {result: 1}}]\n";

test.setTimeout(3_600_000);

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
    const found = () => Number(/^(\d+)/.exec(document.querySelector("[role=status]")?.textContent ?? "")?.[1] ?? 0);
    let still = 0;
    while (still < 300) {
      const before = scrollY;
      scrollBy(0, innerHeight * 0.9);
      const now = await new Promise<number>(requestAnimationFrame);
      frames.push(now - last);
      last = now;
      still = scrollY === before ? still + 1 : 0;
      if (found() >= most && still > 5) {
        break;
      }
    }
    return frames;
  }, rows);
}

const part = (values: number[], which: number) => [...values].sort((a, b) => a - b)[Math.floor(values.length * which)] ?? 0;

test("the lists against their budgets", async ({ open, daemon }) => {
  mkdirSync(join(daemon.folder, "automations"), { recursive: true });
  await daemon.write("automations/tiny.yaml", TINY);
  const { liveUrl } = (await daemon.api("GET", "/automations/tiny")) as { liveUrl: string };

  await send(liveUrl, EXECUTIONS);
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
  const [before, began] = [await busy(), performance.now()];
  await send(liveUrl, UPDATES * SECONDS, UPDATES);
  const seconds = (performance.now() - began) / 1000;
  const share = ((await busy()) - before) / seconds;
  console.log(`${Math.round((UPDATES * SECONDS) / seconds)} executions a second, watched: main thread ${(share * 100).toFixed(1)} %`);

  for (let index = 0; index < AUTOMATIONS; index += 1) {
    writeFileSync(join(daemon.folder, "automations", `many-${index}.yaml`), `name: Automation ${index}\n${TINY}`);
  }
  await daemon.api("POST", "/reload", {});
  const opened = performance.now();
  await open.goto(daemon.base);
  await expect(open.getByRole("row").nth(10)).toBeVisible();
  const visible = performance.now() - opened;
  const scrolling = await scrolled(open, AUTOMATIONS);
  console.log(
    `${AUTOMATIONS} automations: visible after ${Math.round(visible)} ms, scrolled p99 ${part(scrolling, 0.99).toFixed(1)} ms`,
  );
});
