/** Logins at a real OpenID Connect provider, `oidc-provider` of npm, which `make ui-test` installs into the build folder. */

import { type ChildProcess, spawn } from "node:child_process";
import { join, resolve } from "node:path";

import type { Browser, Page } from "@playwright/test";

import { expectAccessible } from "./axe";
import { Daemon, endSession, expect, test } from "./harness";
import { freePort } from "./ports";

const PROVIDER = resolve(process.env.OIDC_PROVIDER ?? "../target/oidc");

test.use({ own: "login" });

/** A daemon whose people log in at a provider. */
class Site {
  daemon = new Daemon();
  private provider: ChildProcess | undefined;

  async start(): Promise<this> {
    const port = await freePort();
    await this.daemon.start(
      {
        COGWORK_OIDC_ISSUER: `http://127.0.0.1:${port}`,
        COGWORK_OIDC_NAME: "Example ID",
        COGWORK_OIDC_CLIENT_ID: "cogwork",
        COGWORK_OIDC_CLIENT_SECRET: "OIDC_CLIENT",
        COGWORK_SECRET_OIDC_CLIENT: "the-client-secret",
        COGWORK_OIDC_GROUPS: "ops=read+run",
        COGWORK_OIDC_EMAILS: "ann@example.com=admin",
      },
      "empty",
    );
    const provider = spawn("node", [join(PROVIDER, "provider.mjs"), String(port), `${this.daemon.base}/login/callback`], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.provider = provider;
    await new Promise<void>((listens, fails) => {
      provider.stdout.once("data", () => listens());
      provider.once("exit", () => fails(new Error(`${PROVIDER}/provider.mjs ended: is it installed?`)));
    });
    return this;
  }

  async stop(): Promise<void> {
    this.provider?.kill("SIGKILL");
    await this.daemon.stop();
  }
}

/** Uses a daemon with a provider, and a page of a browser that neither knows. */
async function withSite(browser: Browser, use: (site: Site, page: Page) => Promise<void>): Promise<void> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const site = new Site();
  try {
    await use(await site.start(), await context.newPage());
  } finally {
    await site.stop();
    await context.close();
  }
}

/** Logs in at the pages of the provider, and consents. */
async function authenticate(page: Page, name: string): Promise<void> {
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  await page.getByRole("button", { name: "Continue" }).click();
}

test("a user logs in at the provider, is named in the audit log, and returns to the page", async ({ browser }) => {
  await withSite(browser, async ({ daemon }, page) => {
    await page.goto(`${daemon.base}/access?tab=audit`);
    await expect(page.getByRole("button", { name: "Sign in with Example ID" })).toBeVisible();
    await expectAccessible(page, "login with a provider");
    await page.getByRole("button", { name: "Sign in with Example ID" }).click();
    await authenticate(page, "ann");
    await expect(page).toHaveURL(`${daemon.base}/access?tab=audit`);
    await expect(page.getByText("Logged in as person ann@example.com (ann) in a browser")).toBeVisible();
    const entry = page.getByRole("table", { name: "Audit log" }).getByRole("row", { name: /logIn/ });
    await expect(entry).toContainText("person ann@example.com (ann) in a browser");
    await expectAccessible(page, "access of a person");
    // The code and the state stay in no history.
    await page.goBack();
    expect(page.url()).not.toContain("code=");
    await page.goto(`${daemon.base}/status`);
    await page.getByRole("button", { name: "Log out" }).click();
    await expect(page.getByRole("button", { name: "Sign in with Example ID" })).toBeVisible();
  });
});

test("an expired session on an open page offers the provider and returns to the page", async ({ browser }) => {
  await withSite(browser, async ({ daemon }, page) => {
    await page.goto(`${daemon.base}/executions`);
    await page.getByRole("button", { name: "Sign in with Example ID" }).click();
    await authenticate(page, "ann");
    await expect(page.getByRole("heading", { name: "Executions" })).toBeVisible();
    await endSession(page);
    await page.reload();
    await page.getByRole("button", { name: "Sign in with Example ID" }).click();
    // The provider still knows the person.
    await expect(page.getByRole("heading", { name: "Executions" })).toBeVisible();
  });
});

test("a user without scopes and a user rejected by the provider get the reason", async ({ browser }) => {
  await withSite(browser, async ({ daemon }, page) => {
    await page.goto(daemon.base);
    await page.getByRole("button", { name: "Sign in with Example ID" }).click();
    // Her address is unverified, and belongs to another person.
    await authenticate(page, "mallory");
    await expect(page.getByRole("alert")).toContainText("`mallory` may not log in here");
    await expectAccessible(page, "login that was refused");
    await page.goto(`${daemon.base}/login/callback?error=access_denied&error_description=<b>No</b>`);
    await expect(page.getByRole("alert")).toContainText("did not log you in: <b>No</b>");
    await page.goto(`${daemon.base}/login/callback?code=stolen&state=stolen`);
    await expect(page.getByRole("alert")).toContainText("not started in this browser");
    await expect(page.getByRole("button", { name: "Sign in with Example ID again" })).toBeVisible();
    expect(page.url()).toBe(`${daemon.base}/login`);
  });
});
