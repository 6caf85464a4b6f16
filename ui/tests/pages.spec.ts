import { expect, login, test } from "./harness";

const FAILING = `trigger: {manual: {}}
steps:
  - {id: first, set: {x: 1}}
  - id: broken
    action: http.request
    retry: {max: 1, delay: 10ms}
    with: {method: GET, url: "http://127.0.0.1:1/nobody"}
  - {id: never, set: {y: 2}}
`;

// The files of other tests are not in these lists.
test.use({ own: "pages" });

test("a link logs in once, and its token leaves the address", async ({ stranger: page, daemon }) => {
  const link = daemon.command(["ui"]).trim();
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Automations" })).toBeVisible();
  expect(page.url()).toBe(`${daemon.base}/`);
  await page.evaluate(() => localStorage.clear());
  await page.goto("about:blank");
  await page.goto(link);
  await expect(page.getByRole("alert")).toContainText("was used already");
});

test("the first page is rendered after at most twelve requests", async ({ open: page, daemon }) => {
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(daemon.base);
  await expect(page.getByRole("row").nth(1)).toBeVisible();
  expect(asked.length, asked.join("\n")).toBeLessThanOrEqual(12);
});

/** A page of each kind. */
const PAGES =
  "/ /new /automations/approval /files/automations%2Fapproval.yaml /executions /executions/1 /executions/1/compare/2 /inbox /events /messages /connections /new/connection /connectors /connectors/wiki /state /status /access".split(
    " ",
  );

test("no page shows data without a complete session, and each explains the login", async ({ stranger: page, daemon }) => {
  const refused = async (path: string) => {
    const answers: number[] = [];
    page.on("response", (response) => answers.push(...(/\/api\/v1\/(?!session\/provider)/.test(response.url()) ? [response.status()] : [])));
    await page.goto(daemon.base + path);
    await expect(page.getByText("cogwork ui"), path).toBeVisible();
    await expect(page.getByRole("navigation"), path).toHaveCount(0);
    page.removeAllListeners("response");
    expect(answers.filter((status) => status < 400), path).toEqual([]);
  };
  for (const path of PAGES) {
    await refused(path);
  }
  // The cookie without the second secret: of another port of this host.
  await login(page, daemon);
  await page.evaluate(() => localStorage.clear());
  await page.goto("about:blank");
  for (const path of PAGES) {
    await refused(path);
  }
  // The second secret without the cookie, and a wrong one with it.
  for (const cookies of [true, false]) {
    if (!cookies) {
      await page.context().clearCookies();
    }
    await page.evaluate(() => localStorage.setItem("cogwork-session", "0".repeat(64)));
    await page.goto(`${daemon.base}/connections`);
    await expect(page.getByRole("dialog", { name: "The session is over" })).toBeVisible();
    await expect(page.getByRole("table")).toHaveCount(0);
  }
});

test("the list shows invalid files first, and filters", async ({ home: open, daemon }) => {
  await daemon.write("automations/wrong.yaml", "trigger: {manual: {}}\non: x\nsteps: []\n");
  await expect(open.getByText("automations/wrong.yaml")).toBeVisible();
  await expect(open.locator(".broken", { hasText: "automations/wrong.yaml" }).getByText("unknown key `on`")).toBeVisible();
  await open.keyboard.press("/");
  await open.keyboard.type("approval");
  await expect(open.getByRole("row")).toHaveCount(2);
  expect(open.url()).toContain("q=approval");
  await daemon.write("automations/wrong.yaml", "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
});

test("a change between the first read of a page and the opening of the stream is shown", async ({ stranger: page, daemon }) => {
  await login(page, daemon);
  let release = () => {};
  const written = new Promise<void>((done) => (release = done));
  await page.route("**/api/v1/stream?*", async (route) => {
    await written;
    await route.continue();
  });
  await page.reload();
  await expect(page.getByRole("table", { name: "Automations" })).toBeVisible();
  await daemon.write("automations/late.yaml", "trigger: {manual: {}}\non: x\nsteps: []\n");
  release();
  await expect(page.getByText("automations/late.yaml")).toBeVisible();
  await daemon.write("automations/late.yaml", "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
});

test("the page of a failed execution starts with the step, the attempts and the reason", async ({ open, daemon }) => {
  await daemon.write("automations/failing.yaml", FAILING);
  const id = await daemon.run("failing", {});
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(open.getByText("Step broken failed after 2 attempts")).toBeVisible();
  await expect(open.getByRole("heading", { name: "Error" })).toBeVisible();
  await open.getByRole("tree").getByText("first").click();
  expect(open.url()).toContain("step=first");
  await expect(open.getByRole("heading", { name: "Result" })).toBeVisible();
  await open.getByRole("tree").getByText("never").click();
  await expect(open.getByText("This step did not run.")).toBeVisible();
  // In a narrow window the inspector is a sheet over the whole of it.
  await open.setViewportSize({ width: 360, height: 800 });
  const sheet = open.getByRole("dialog", { name: "Step broken" });
  await expect(sheet).toBeHidden();
  await open.getByRole("tree").getByText("broken").click();
  await expect(sheet.getByRole("heading", { name: "Error" })).toBeVisible();
  expect(await sheet.boundingBox()).toEqual({ x: 0, y: 0, width: 360, height: 800 });
  await open.keyboard.press("Escape");
  await expect(sheet).toBeHidden();
});

test("the response to the caller is shown with its headers", async ({ open, daemon }) => {
  await daemon.send("page-from-webhook", { orderId: "7", quantity: 2 });
  await open.goto(`${daemon.base}/executions?automation=page-from-webhook`);
  await open.getByRole("table").getByRole("link").first().click();
  await expect(open.getByText("The caller got 201").first()).toBeVisible();
  await open.getByRole("tab", { name: "Response" }).click();
  await expect(open.getByText("x-page-id")).toBeVisible();
});

test("a page follows an execution live, and says when the daemon is gone", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/executions?automation=route-request`);
  await daemon.send("route-request", { kind: "count", words: ["a"] });
  await expect(open.getByRole("link", { name: "route-request" }).first()).toBeVisible();
  await daemon.kill();
  await expect(open.getByText("Not connected to the daemon")).toBeVisible({ timeout: 20_000 });
  await expect(open.getByRole("link", { name: "route-request" }).first()).toBeVisible();
  await daemon.serve();
  await expect(open.getByText("Not connected to the daemon")).toBeHidden({ timeout: 40_000 });
});

test("a secret is set, and its value is never shown", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/connections`);
  await open.getByRole("row", { name: /mailPassword/ }).getByRole("button").click();
  await open.getByLabel("Value of the secret").fill("hunter2hunter2");
  await open.getByRole("button", { name: "Set", exact: true }).click();
  await expect(open.getByRole("row", { name: /mailPassword/ })).toContainText("store");
  expect(await open.content()).not.toContain("hunter2");
});
