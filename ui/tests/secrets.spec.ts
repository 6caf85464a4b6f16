/** The list of secrets with a provider: their sources, ages and errors, and never a value. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { expectAccessible } from "./axe";
import { Daemon, expect, login, test } from "./harness";

test.use({ own: "secrets" });

/** Gives every secret except those whose name begins with `locked`. */
const PROGRAM = 'case "$1" in locked*) exit 1;; *) echo "canary-of-$1";; esac\n';
const CONNECTION = `type: http.basic
with: {baseUrl: "https://shop.example.com", username: "\${{ secrets.shopUser }}", password: "\${{ secrets.lockedPassword }}"}
`;

test("secrets of a provider show their source, age and error, and no value", async ({ browser }) => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const daemon = new Daemon();
  const program = join(daemon.folder, "secrets.sh");
  writeFileSync(program, PROGRAM);
  try {
    await daemon.start({ COGWORK_SECRETS_SOURCES: "[store, command]", COGWORK_SECRETS_COMMAND: `/bin/sh ${program}` }, "empty");
    await daemon.api("PUT", "/secrets/stored", { value: "canary-of-stored" });
    await daemon.write("connections/shop.yaml", CONNECTION);
    await expect
      .poll(async () => ((await daemon.api("GET", "/secrets")) as { secrets: unknown[] }).secrets.length)
      .toBe(3);
    const page = await context.newPage();
    await login(page, daemon);
    await page.goto(`${daemon.base}/connections`);
    const row = (name: string) => page.getByRole("row").filter({ hasText: name });
    await expect(row("shopUser")).toContainText(/command\s*read (now|\d+ s ago)/);
    await expect(row("lockedPassword")).toContainText("the secret provider `command`: the program fails with exit status: 1");
    await expect(row("stored")).toContainText(/store, version 1\s*set (now|\d+ s ago)/);
    // Nothing is written to a provider.
    await expect(row("stored").getByRole("button", { name: "Replace stored" })).toBeVisible();
    await expect(row("shopUser").getByRole("button")).toHaveCount(0);
    expect(await page.content()).not.toContain("canary-of");
    await expectAccessible(page, "secrets of a provider");
    if (process.env.SCREENSHOT) {
      await page.screenshot({ path: process.env.SCREENSHOT, fullPage: true });
    }
  } finally {
    await daemon.stop();
    await context.close();
  }
});
