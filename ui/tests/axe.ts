/** The rules of axe over the page that is shown: wide and narrow, light and dark, without loading it again. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import type { Page } from "@playwright/test";
import type axe from "axe-core";

import { expect } from "./harness";
import { HEIGHT, picture, WIDTHS } from "./look";

declare global {
  interface Window {
    axe: typeof axe;
  }
}

/** The rules as one script, half as long as the readable form of it. */
const SOURCE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The rules in force whose findings depend on colours. */
export const ON_COLOURS = ["color-contrast", "link-in-text-block"];

/** The serious findings of axe on the page, each with the first element that it is about: of these rules, else of all in force. */
export async function findings(page: Page, rules?: string[]): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in window))) {
    await page.evaluate(SOURCE);
  }
  return page.evaluate(async (values) => {
    // No style sheet or sound is loaded again for it: the one rule that would read them, on the orientation, is not in force.
    const { violations } = await window.axe.run(document, {
      resultTypes: ["violations"],
      preload: false,
      ...(values && { runOnly: { type: "rule" as const, values } }),
    });
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    return serious.map(({ id, nodes }) => `${id} at ${nodes[0]?.html}`);
  }, rules);
}

/**
 * Expects that the page has no serious finding and is not wider than the window. A scheme changes nothing but the values of the
 * tokens, as a test of `accessibility.spec.ts` checks: in the dark one only the rules on colours can find something new.
 */
export async function expectAccessible(page: Page, name: string, widths = WIDTHS): Promise<void> {
  for (const width of widths) {
    await page.setViewportSize({ width, height: HEIGHT });
    for (const colorScheme of ["light", "dark"] as const) {
      // Without motion, no colour is measured while it changes.
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      expect.soft(await findings(page, colorScheme === "dark" ? ON_COLOURS : undefined), `${name}, ${width} px, ${colorScheme}`).toEqual([]);
      await picture(page, `view ${name} ${width} ${colorScheme}`);
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect.soft(overflow, `${name} is wider than ${width} px`).toBeLessThanOrEqual(0);
  }
}
