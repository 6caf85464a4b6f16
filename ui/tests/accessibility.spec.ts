/** Every page and every sheet without a serious finding of accessibility, wide and narrow, light and dark. */

import { readdirSync } from "node:fs";

import type { Page } from "@playwright/test";

import { expectAccessible } from "./axe";
import { type Daemon, expect, test } from "./harness";

// Its lists are short: rows differ in nothing that matters here.
test.use({ own: "accessibility" });

const FAILING = `name: Failing order
trigger: {webhook: {mode: sync, timeout: 30s, verify: none}}
steps:
  - {id: first, set: {x: 1}}
  - id: broken
    action: http.request
    retry: {max: 1, delay: 10ms}
    with: {method: GET, url: "http://127.0.0.1:1/orders/\${{ trigger.results.body.data.id }}"}
  - {id: never, set: {y: 2}}
onError:
  - {id: tell, action: log.error, with: {message: the order is lost}}
`;
const LOOP = `trigger: {manual: {}}
steps:
  - {id: list, set: {items: "\${{ range(60) }}"}}
  - id: each
    forEach: vars.items
    failFast: false
    steps:
      - {id: odd, if: "item == 7", fail: item seven is gone}
      - {id: say, action: log.info, with: {message: "item \${{ item }}"}}
`;
const HOOK = "trigger: {webhook: {mode: sync, verify: none}}\nsteps:\n  - {id: out, set: {n: \"${{ trigger.results.body.data.n }}\"}}\n";
const BROKEN = "trigger: {manual: {}}\non: x\nsteps: []\n";

/** The executions that the pages show. */
interface Shown {
  failed: string;
  replayed: string;
  turns: string;
  waiting: string;
}
let shown: Shown;

const newest = async (daemon: Daemon, automation: string) =>
  ((await daemon.api("GET", `/executions?automation=${automation}&limit=1`)) as { executions: { id: string }[] }).executions[0]?.id ?? "";

test.beforeAll(async ({ daemon }) => {
  await daemon.write("automations/a11y-failing.yaml", FAILING);
  await daemon.write("automations/a11y-turns.yaml", LOOP);
  await daemon.write("automations/a11y-hook.yaml", HOOK);
  await daemon.write("automations/a11y-broken.yaml", BROKEN);
  await daemon.send("a11y-failing", { id: 4711 });
  await daemon.send("approval", { what: "A chair", amount: 300 });
  await daemon.api("PUT", "/state/shared/axe", { value: { a: [1, 2] }, ttl: "1d" });
  const refused = (await daemon.api("GET", "/automations/a11y-hook")) as { liveUrl: string };
  await fetch(refused.liveUrl, { method: "POST", headers: { "content-type": "application/json" }, body: "{" });
  const failed = await newest(daemon, "a11y-failing");
  const { executionId } = (await daemon.api("POST", `/executions/${failed}/replay`, {})) as { executionId: string };
  shown = { failed, replayed: executionId, turns: await daemon.run("a11y-turns", {}), waiting: await newest(daemon, "approval") };
});

interface Row {
  /** The file of the page in `src/pages`. */
  page: string;
  name: string;
  path: (ids: Shown) => string;
  /** Acts on the page, and waits for the view that is examined. */
  act?: (page: Page, daemon: Daemon) => Promise<void>;
}

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const type = async (page: Page, text: string) => {
  await page.getByRole("textbox", { name: "Text of the file" }).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type(text);
};

const ROWS: Row[] = [
  { page: "Automations", name: "automations", path: () => "/", act: (page) => expect(page.getByRole("row").nth(2)).toBeVisible() },
  {
    page: "Automations",
    name: "the keys",
    path: () => "/",
    act: async (page) => {
      await page.keyboard.press("?");
      await expect(page.getByRole("dialog")).toBeVisible();
    },
  },
  {
    page: "Automations",
    name: "the palette",
    path: () => "/",
    act: async (page) => {
      await page.keyboard.press("Control+k");
      await expect(page.getByRole("dialog").getByRole("option").first()).toBeVisible();
    },
  },
  { page: "Executions", name: "executions", path: () => "/executions", act: (page) => expect(page.getByRole("row").nth(2)).toBeVisible() },
  {
    page: "Executions",
    name: "executions with selected rows and more filters",
    path: () => "/executions?failedStep=broken",
    act: async (page) => {
      await page.getByRole("row").nth(1).getByRole("checkbox").check();
      await expect(page.getByText("1 selected")).toBeVisible();
    },
  },
  { page: "Execution", name: "a failed execution", path: ({ failed }) => `/executions/${failed}` },
  { page: "Execution", name: "an execution as it was", path: ({ failed }) => `/executions/${failed}?event=3` },
  { page: "Execution", name: "the input of a step", path: ({ failed }) => `/executions/${failed}?tab=input&step=broken` },
  { page: "Execution", name: "the source of a step", path: ({ failed }) => `/executions/${failed}?tab=source&step=broken` },
  { page: "Execution", name: "the response to the caller", path: ({ failed }) => `/executions/${failed}?tab=response` },
  { page: "Execution", name: "an execution with a loop", path: ({ turns }) => `/executions/${turns}` },
  {
    page: "Execution",
    name: "an execution that waits for a person",
    path: ({ waiting }) => `/executions/${waiting}`,
    act: (page) => expect(page.getByRole("form")).toBeVisible(),
  },
  {
    page: "Execution",
    name: "the sheet of a replay",
    path: ({ failed }) => `/executions/${failed}`,
    act: async (page) => {
      await button(page, "Replay…").click();
      await expect(page.getByRole("dialog").getByRole("table")).toBeVisible();
    },
  },
  {
    page: "Execution",
    name: "the sheet of a test",
    path: ({ failed }) => `/executions/${failed}`,
    act: async (page) => {
      await button(page, "Save as test…").click();
      await expect(page.getByRole("dialog").locator("pre")).toBeVisible();
    },
  },
  {
    page: "Compare",
    name: "two executions compared",
    path: ({ failed, replayed }) => `/executions/${failed}/compare/${replayed}`,
    act: (page) => expect(page.getByRole("heading").nth(1)).toBeVisible(),
  },
  { page: "Inbox", name: "the inbox", path: () => "/inbox", act: (page) => expect(page.getByRole("form").first()).toBeVisible() },
  { page: "Connections", name: "connections", path: () => "/connections", act: (page) => expect(page.getByRole("row").nth(1)).toBeVisible() },
  { page: "Connectors", name: "connectors", path: () => "/connectors", act: (page) => expect(page.getByText("wiki").first()).toBeVisible() },
  {
    page: "Connectors",
    name: "the actions of a connector",
    path: () => "/connectors/wiki",
    act: async (page) => {
      await page.getByText("wiki.createPage", { exact: true }).click();
      await expect(page.locator("details[open]").getByText("Result", { exact: true })).toBeVisible();
    },
  },
  { page: "State", name: "the state", path: () => "/state", act: (page) => expect(page.getByRole("region", { name: "axe" })).toBeVisible() },
  {
    page: "Status",
    name: "the status with refused requests",
    path: () => "/status?refusals=a11y-hook",
    act: (page) => expect(page.getByRole("row", { name: /bad_json/ }).first()).toBeVisible(),
  },
  {
    page: "Access",
    name: "the tokens and the form of a new one",
    path: () => "/access",
    act: async (page) => {
      await button(page, "New token").click();
      await expect(page.getByRole("form", { name: "New token" })).toBeVisible();
    },
  },
  { page: "Access", name: "the audit log", path: () => "/access?tab=audit", act: (page) => expect(page.getByRole("table")).toBeVisible() },
  { page: "New", name: "a new automation", path: () => "/new", act: (page) => expect(page.getByRole("region").first()).toBeVisible() },
  { page: "File", name: "a file that does not load", path: () => "/files/automations%2Fa11y-broken.yaml", act: (page) => expect(page.getByText("unknown key `on`").first()).toBeVisible() },
  {
    page: "Automation",
    name: "the graph of an automation",
    path: () => "/automations/order-intake?tab=graph",
    act: (page) => expect(page.getByRole("tree").first()).toBeVisible(),
  },
  {
    page: "Automation",
    name: "graph, source and form of a step",
    path: () => "/automations/order-intake?tab=both&step=page",
    act: (page) => expect(page.getByRole("region", { name: "Step page" })).toBeVisible(),
  },
  {
    page: "Automation",
    name: "a problem at its line, and the sheet that saves",
    path: () => "/automations/a11y-failing?tab=source",
    act: async (page) => {
      await type(page, "# more");
      await page.keyboard.press("Control+s");
      await expect(page.getByRole("region", { name: "Difference" })).toContainText("# more");
    },
  },
  {
    page: "Automation",
    name: "a file that was changed on disk meanwhile",
    path: () => "/automations/a11y-turns?tab=source",
    act: async (page, daemon) => {
      await type(page, "# mine");
      await daemon.write("automations/a11y-turns.yaml", `# theirs\n${LOOP}`);
      await button(page, "Compare").click();
      await expect(page.getByRole("region", { name: "Changes of mine" })).toContainText("# mine");
    },
  },
  { page: "Automation", name: "the executions of an automation", path: () => "/automations/a11y-failing?tab=executions", act: (page) => expect(page.getByRole("row").nth(1)).toBeVisible() },
  {
    page: "Automation",
    name: "listening, with a capture",
    path: () => "/automations/a11y-hook?tab=test",
    act: async (page, daemon) => {
      await button(page, "Enter listening mode").click();
      await expect(page.getByRole("timer")).toBeVisible();
      await daemon.send("a11y-hook", { n: 1 }, "testUrl");
      await expect(page.getByText("would start an execution")).toBeVisible();
    },
  },
  {
    page: "Automation",
    name: "a payload that is configured",
    path: () => "/automations/a11y-hook?tab=test",
    act: async (page) => {
      await button(page, "+ New").click();
      await expect(page.getByRole("dialog").getByRole("region", { name: "What steps would read" })).toBeVisible();
    },
  },
  {
    page: "Automation",
    name: "an address that is replaced",
    path: () => "/automations/a11y-hook?tab=test",
    act: async (page) => {
      await button(page, "Rotate… the live URL").click();
      await expect(page.getByRole("dialog")).toBeVisible();
    },
  },
  {
    page: "Automation",
    name: "the form of a trigger",
    path: () => "/automations/a11y-hook?tab=test&drawer=configure",
    act: (page) => expect(page.getByLabel("Wait", { exact: true })).toBeVisible(),
  },
  {
    page: "Automation",
    name: "the limits of a trigger",
    path: () => "/automations/a11y-hook?tab=test&drawer=limits",
    act: (page) => expect(page.getByLabel("At the same time")).toBeVisible(),
  },
  {
    page: "Automation",
    name: "the details of a trigger",
    path: () => "/automations/a11y-hook?tab=test&drawer=details",
    act: (page) => expect(page.getByText("bad_json").first()).toBeVisible(),
  },
  {
    page: "Automation",
    name: "a change of the trigger",
    path: () => "/automations/page-from-webhook?tab=test",
    act: async (page) => {
      await button(page, "Change trigger…").click();
      const sheet = page.getByRole("dialog", { name: "Change the trigger" });
      await sheet.getByRole("radio", { name: /^Schedule/ }).check();
      await button(page, "Diff").click();
      await expect(sheet.getByRole("region", { name: "Difference" })).toContainText("schedule");
    },
  },
  {
    page: "Automation",
    name: "the tests of an automation",
    path: () => "/automations/page-from-webhook?tab=tests",
    act: (page) => expect(page.getByText(/of \d+ passed/)).toBeVisible(),
  },
  {
    page: "Automation",
    name: "a version of an automation",
    path: () => "/automations/page-from-webhook?tab=versions",
    act: async (page) => {
      await page.getByRole("list", { name: "Versions" }).getByRole("button").first().click();
      await expect(page.getByRole("region", { name: /^Difference of version/ })).toBeVisible();
    },
  },
  {
    page: "Automation",
    name: "an editor with values from an execution",
    path: ({ waiting }) => `/automations/approval?tab=source&values=${waiting}`,
    act: (page) => expect(page.getByLabel("Values from an execution")).toBeVisible(),
  },
  {
    page: "New",
    name: "an automation from a payload",
    path: ({ waiting }) => `/new?trigger=webhook&execution=${waiting}`,
    act: (page) => expect(page.getByText("It reads the fields of")).toBeVisible(),
  },
  {
    page: "NewConnection",
    name: "a new connection",
    path: () => "/new/connection",
    act: async (page) => {
      await page.getByLabel("Type").selectOption("wiki.basic");
      await expect(page.getByLabel(/^apiToken/)).toBeVisible();
    },
  },
  {
    page: "Connectors",
    name: "an action to insert",
    path: () => "/connectors/log",
    act: async (page) => {
      await page.getByText("log.info", { exact: true }).click();
      await expect(page.getByLabel("Automation that gets log.info")).toBeVisible();
    },
  },
  {
    page: "Execution",
    name: "the executions to compare with",
    path: ({ failed }) => `/executions/${failed}`,
    act: async (page) => {
      await button(page, "Compare with …").click();
      await expect(page.getByRole("dialog").getByRole("link").first()).toBeVisible();
    },
  },
  { page: "Automation", name: "an automation that is not there", path: () => "/automations/nowhere", act: (page) => expect(page.getByRole("alert")).toBeVisible() },
];

for (const { page, name, path, act } of ROWS) {
  test(`no serious finding of accessibility: ${page}, ${name}`, async ({ open, daemon }) => {
    await open.goto(daemon.base + path(shown));
    await expect(open.getByRole("heading").or(open.getByRole("alert")).first()).toBeVisible();
    await act?.(open, daemon);
    await expectAccessible(open, name);
  });
}

test("no serious finding of accessibility: Login, and the sheet of a session that is over", async ({ stranger, daemon }) => {
  await stranger.goto(`${daemon.base}/login#used`);
  await expect(stranger.getByRole("alert")).toBeVisible();
  await expectAccessible(stranger, "a login that failed");
  await stranger.goto(daemon.base);
  await expect(stranger.getByText("cogwork ui")).toBeVisible();
  await expectAccessible(stranger, "no session");
});

test("every page is examined for accessibility", () => {
  const examined = new Set([...ROWS.map(({ page }) => `${page}.svelte`), "Login.svelte"]);
  const pages = readdirSync(new URL("../src/pages", import.meta.url)).filter((file) => file.endsWith(".svelte"));
  expect(pages.filter((file) => !examined.has(file))).toEqual([]);
});
