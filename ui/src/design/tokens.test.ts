import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

/** The relative luminance of a colour (WCAG 2.2). */
function luminance(hex: string): number {
  const parts = [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.040_45 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (parts[0] ?? 0) + 0.7152 * (parts[1] ?? 0) + 0.0722 * (parts[2] ?? 0);
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return ((high ?? 0) + 0.05) / ((low ?? 0) + 0.05);
}

const css = readFileSync(new URL("./tokens.css", import.meta.url), "utf8");
const [light = "", dark = "", chosen = ""] = css.split(/@media \(prefers-color-scheme: dark\)|:root\[data-theme="dark"\]/);
const read = (text: string) => new Map([...text.matchAll(/--([a-z-]+): (#[0-9a-f]{6});/g)].map(([, name, hex]) => [name, hex]));

it("text has a contrast of 4.5 and marks of 3 on both backgrounds, in both themes", () => {
  for (const theme of [read(light), new Map([...read(light), ...read(dark)])]) {
    for (const ground of ["ground", "raised"]) {
      for (const name of ["text", "muted", "accent", "failed"]) {
        expect(contrast(theme.get(name) ?? "", theme.get(ground) ?? ""), `${name} on ${ground}`).toBeGreaterThanOrEqual(4.5);
      }
      for (const name of ["control", "succeeded", "running", "waiting", "stuck"]) {
        expect(contrast(theme.get(name) ?? "", theme.get(ground) ?? ""), `${name} on ${ground}`).toBeGreaterThanOrEqual(3);
      }
    }
    expect(contrast(theme.get("on-accent") ?? "", theme.get("accent") ?? "")).toBeGreaterThanOrEqual(4.5);
    expect(contrast(theme.get("failed") ?? "", theme.get("failed-ground") ?? "")).toBeGreaterThanOrEqual(4.5);
  }
});

it("the dark theme is the same whether chosen by the system or the user", () => {
  expect(read(dark).size).toBeGreaterThan(10);
  expect([...read(chosen)]).toEqual([...read(dark)]);
});
