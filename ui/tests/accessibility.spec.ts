/** Every page and every sheet without a serious finding of accessibility, wide and narrow, light and dark. */

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import { expectAccessible, findings, ON_COLOURS } from "./axe";
import { type Daemon, endSession, expect, login, test } from "./harness";
import { prepare, type Shown, VIEWS } from "./views";

// Its lists are short: rows differ in nothing that matters here.
test.use({ own: "accessibility" });

/** What the views show, made once in a project. */
const prepared = new WeakMap<Daemon, Promise<Shown>>();
function shownBy(daemon: Daemon): Promise<Shown> {
  const shown = prepared.get(daemon) ?? prepare(daemon);
  prepared.set(daemon, shown);
  return shown;
}

for (const { page, name, path, act, widths } of VIEWS) {
  test(`no serious finding of accessibility: ${page}, ${name}`, async ({ open, daemon }) => {
    await open.goto(daemon.base + path(await shownBy(daemon)));
    await expect(open.getByRole("heading").or(open.getByRole("alert")).first()).toBeVisible();
    await act?.(open, daemon);
    await expectAccessible(open, name, widths);
  });
}

test("no serious finding of accessibility: Login, and the sheet of a session that is over", async ({ stranger, daemon }) => {
  await stranger.goto(`${daemon.base}/login#used`);
  await expect(stranger.getByRole("alert")).toBeVisible();
  await expectAccessible(stranger, "a login that failed");
  await stranger.goto(daemon.base);
  await expect(stranger.getByText("cogwork ui")).toBeVisible();
  await expectAccessible(stranger, "no session");
  await login(stranger, daemon);
  await stranger.goto(`${daemon.base}/executions`);
  await expect(stranger.getByRole("row").nth(1)).toBeVisible();
  await endSession(stranger);
  await stranger.getByLabel("Text in an execution").fill("anything");
  await expect(stranger.getByRole("dialog", { name: "The session is over" })).toBeVisible();
  await expectAccessible(stranger, "the sheet of a session that is over");
});

test("every page is examined for accessibility", () => {
  const examined = new Set([...VIEWS.map(({ page }) => `${page}.svelte`), "Login.svelte"]);
  const pages = readdirSync(new URL("../src/pages", import.meta.url)).filter((file) => file.endsWith(".svelte"));
  expect(pages.filter((file) => !examined.has(file))).toEqual([]);
});

test("every sheet and every dialog is examined for accessibility", () => {
  const examined = new Set([...VIEWS.map(({ dialog }) => `${dialog}.svelte`), "App.svelte"]);
  const folder = fileURLToPath(new URL("../src", import.meta.url));
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".svelte"));
  const dialogs = files.filter((file) => /<(Sheet|Dialog)\b/.test(readFileSync(join(folder, file), "utf8")));
  expect(dialogs.length).toBeGreaterThan(8);
  expect(dialogs.filter((file) => !examined.has(basename(file)))).toEqual([]);
});

test("a colour scheme changes the values of tokens, and nothing else", () => {
  const folder = fileURLToPath(new URL("../src", import.meta.url));
  const styles = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => /\.(css|svelte)$/.test(file));
  const depending = styles.filter((file) => /prefers-color-scheme|data-theme|light-dark\(/.test(readFileSync(join(folder, file), "utf8")));
  expect(depending).toEqual([join("design", "tokens.css")]);
  const declared = readFileSync(join(folder, "design/tokens.css"), "utf8").matchAll(/^\s*([a-z-]+):/gm);
  expect([...declared].map(([, name]) => name).filter((name) => !/^(--.*|color-scheme)$/.test(name ?? ""))).toEqual([]);
});

test("the rules on colours find a text that is too pale in the dark", async ({ home }) => {
  await home.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  expect(await findings(home, ON_COLOURS)).toEqual([]);
  await home.evaluate(() => document.documentElement.style.setProperty("--muted", "#3a3f46"));
  expect((await findings(home, ON_COLOURS)).join()).toContain("color-contrast");
});
