/** Pictures to look at, of every page, every sheet and every state: `npm run look` puts them into `test-results/look`, at both widths, light and dark. */

import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";

import type { Page } from "@playwright/test";

const FOLDER = process.env.LOOK === undefined ? undefined : resolve("test-results/look");

/** The states that the design draws. Each is drawn by a test, which a test of `states.spec.ts` checks. */
export const STATES = [
  "empty",
  "loading",
  "error",
  "offline",
  "session over",
  "disabled",
  "stale",
  "broken",
  "listening, nothing captured",
  "listening, captured",
  "listening, ended",
  "signature rejected",
  "sync time-out",
  "hook creation failed",
  "secret missing",
  "waiting for a turn",
  "waiting for a slot",
  "waiting for a host",
  "too large",
  "cleared by age",
  "masked",
  "read-only daemon",
  "file changed meanwhile",
  "two tabs",
] as const;
export type State = (typeof STATES)[number];

/** The widths in pixels at which every page has to work. */
export const WIDTHS = [1440, 360];
export const HEIGHT = 900;

/** Takes a picture of the page as it is now; a test takes none. */
export async function picture(page: Page, name: string): Promise<void> {
  if (FOLDER !== undefined) {
    mkdirSync(FOLDER, { recursive: true });
    // The layout of a graph and of an editor follows the window.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const file = name.replaceAll(/[^a-z0-9]+/gi, "-");
    await page.screenshot({ path: join(FOLDER, `${file}.png`), animations: "disabled", caret: "hide" });
  }
}

/** Draws a state of the page: the pictures of both widths, light and dark. Afterwards the page is as it was. */
export async function draw(page: Page, state: State, detail = ""): Promise<void> {
  if (FOLDER === undefined) {
    return;
  }
  const before = page.viewportSize();
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await picture(page, `state ${state} ${detail} ${width} ${colorScheme}`);
    }
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  await page.setViewportSize(before ?? { width: WIDTHS[0] ?? 0, height: HEIGHT });
}
