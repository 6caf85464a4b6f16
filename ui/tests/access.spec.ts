import { expect, test } from "./harness";

test.use({ own: "access" });

test("a token is created with scopes, shown once, listed and revoked", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/status`);
  await open.getByRole("link", { name: "Access" }).click();
  await expect(open.getByText("No token but the admin token")).toBeVisible();
  await open.getByRole("button", { name: "New token" }).click();
  const form = open.getByRole("form", { name: "New token" });
  await form.getByLabel("Name").fill("reader");
  await form.getByRole("button", { name: "Create" }).click();
  const token = await open.getByLabel("Token reader", { exact: true }).inputValue();
  expect(token).toMatch(/^cogwork_.{40,}/);
  const status = async (path: string) => (await fetch(`${daemon.base}/api/v1${path}`, { headers: { authorization: `Bearer ${token}` } })).status;
  expect(await status("/status")).toBe(200);
  expect(await status("/tokens")).toBe(403);
  await open.reload();
  await expect(open.getByRole("row", { name: /reader/ })).toContainText("read");
  expect(await open.content()).not.toContain(token);
  await open.getByRole("button", { name: "Revoke reader" }).click();
  await open.getByRole("button", { name: "Revoke", exact: true }).click();
  await expect(open.getByText("No token but the admin token")).toBeVisible();
  expect(await status("/status")).toBe(401);
});

test("the audit log shows who did what, and its filters are in the URL", async ({ open, daemon }) => {
  await daemon.write("automations/audited.yaml", "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
  const id = await daemon.run("audited", {});
  await open.goto(`${daemon.base}/access?tab=audit`);
  const table = open.getByRole("table", { name: "Audit log" });
  await expect(table.getByRole("row", { name: /logIn/ }).first()).toContainText("admin token in a browser");
  await open.getByLabel("Action").fill("start");
  await expect(table.getByRole("row", { name: /logIn/ })).toHaveCount(0);
  const started = table.getByRole("row", { name: /audited\/run/ });
  await expect(started).toContainText("127.0.0.1");
  expect(open.url()).toContain("action=start");
  await started.getByRole("link", { name: id.slice(0, 8) }).click();
  await expect(open).toHaveURL(new RegExp(`/executions/${id}`));
});

test("a session without the scope gets an explanation", async ({ page, daemon }) => {
  const { path } = (await daemon.api("POST", "/session/link", { scopes: ["read"] })) as { path: string };
  await page.goto(`${daemon.base}${path}`);
  await expect(page.getByRole("heading", { name: "Automations" })).toBeVisible();
  await page.goto(`${daemon.base}/access`);
  await expect(page.getByRole("alert").first()).toContainText("needs the scope `admin`");
  await expect(page.locator(".tag")).toHaveText("read");
});
