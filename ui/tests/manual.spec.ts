import { expect, test } from "./harness";

test("the manual opens without a session, under a policy that denies its scripts the network", async ({ stranger: page, daemon }) => {
  const refused: string[] = [];
  page.on("console", (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) {
      refused.push(message.text());
    }
  });
  const answer = await page.goto(`${daemon.base}/manual/`);
  expect(answer?.headers()["content-security-policy"]).toContain("connect-src 'none'");
  await expect(page.getByRole("heading", { level: 1 }).first()).toBeVisible();
  const isBuilt = (await page.locator("#mdbook-content").count()) > 0;
  if (!isBuilt) {
    await expect(page.getByText("make book").first()).toBeVisible();
    await page.goto(`${daemon.base}/manual/storage.html`);
    await expect(page.getByText("make book").first()).toBeVisible();
    return;
  }
  await page.keyboard.press("/");
  // The search of mdBook listens to keys.
  await page.getByPlaceholder(/Search/).pressSequentially("replaced folder restore");
  const found = page.locator("#mdbook-searchresults a");
  await expect(found.first()).toBeVisible();
  await expect(found.filter({ hasText: "Restore" }).first()).toBeVisible();
  await page.goto(`${daemon.base}/manual/diagnostics/others.html`);
  await expect(page.locator("#mdbook-sidebar").getByRole("link", { name: "Limits", exact: true })).toHaveAttribute("href", /limits\.html$/);
  expect(refused).toEqual([]);
});

test("every page links to the manual of this version", async ({ home: open }) => {
  const link = open.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Manual" });
  await expect(link).toHaveAttribute("href", "/manual/");
  await expect(link).toHaveAttribute("target", "_blank");
});
