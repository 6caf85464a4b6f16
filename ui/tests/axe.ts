/** The rules of axe over the page that is shown: wide and narrow, light and dark, without loading it again. */

import type { Page } from "@playwright/test";
import axe from "axe-core";

import { expect } from "./harness";
import { HEIGHT, picture, WIDTHS } from "./look";

declare global {
  interface Window {
    axe: typeof axe;
  }
}

/** The serious findings of axe on the page, each with the first element that it is about. */
async function findings(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in window))) {
    await page.evaluate(axe.source);
  }
  return page.evaluate(async () => {
    // No style sheet or sound is loaded again for it: the one rule that would read them, on the orientation, is not in force.
    const { violations } = await window.axe.run(document, {
      resultTypes: ["violations"],
      preload: false,
    });
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    return serious.map(({ id, nodes }) => `${id} at ${nodes[0]?.html}`);
  });
}

/** Expects that the page has no serious finding and is not wider than the window. */
export async function expectAccessible(page: Page, name: string, widths = WIDTHS): Promise<void> {
  for (const width of widths) {
    await page.setViewportSize({ width, height: HEIGHT });
    for (const colorScheme of ["light", "dark"] as const) {
      // Without motion, no colour is measured while it changes.
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      expect.soft(await findings(page), `${name}, ${width} px, ${colorScheme}`).toEqual([]);
      await picture(page, `view ${name} ${width} ${colorScheme}`);
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect.soft(overflow, `${name} is wider than ${width} px`).toBeLessThanOrEqual(0);
  }
}
