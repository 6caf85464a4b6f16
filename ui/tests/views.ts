/** The views of the UI: every page and every sheet, each with what leads to it. They are examined for accessibility, and drawn by `npm run screenshots`. */

import type { Page } from "@playwright/test";

import { type Daemon, expect } from "./harness";

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
const SIGNED = "trigger: {webhook: {verify: {preset: github, secret: \"${{ secrets.a11yHook }}\"}}}\nsteps: [{set: {a: 1}}]\n";
const SHORT = "trigger: {manual: {}}\nsteps:\n  - {id: first, set: {x: 1}}\n";
const ON_EVENT = "trigger: {event: a11y.sent, data: {order: {type: text, required: true}, amount: number}}\nsteps:\n  - {id: wait, waitFor: {event: a11y.sent}, timeout: 0s, onTimeout: continue}\n";
const BROKEN = "trigger: {manual: {}}\non: x\nsteps: []\n";

/** The executions that the pages show. */
export interface Shown {
  failed: string;
  replayed: string;
  turns: string;
  waiting: string;
}

const newest = async (daemon: Daemon, automation: string) =>
  ((await daemon.api("GET", `/executions?automation=${automation}&limit=1`)) as { executions: { id: string }[] }).executions[0]?.id ?? "";

/** Makes what the views show. */
export async function prepare(daemon: Daemon): Promise<Shown> {
  await daemon.write("automations/a11y-failing.yaml", FAILING);
  await daemon.write("automations/a11y-turns.yaml", LOOP);
  await daemon.write("automations/a11y-hook.yaml", HOOK);
  await daemon.write("automations/a11y-tried.yaml", SHORT);
  await daemon.write("automations/a11y-planned.yaml", SHORT);
  await daemon.write("automations/a11y-event.yaml", ON_EVENT);
  await daemon.run("a11y-tried", {});
  await daemon.write("automations/a11y-signed.yaml", SIGNED);
  await daemon.write("automations/a11y-broken.yaml", BROKEN);
  await daemon.send("a11y-failing", { id: 4711 });
  await daemon.send("approval", { what: "A chair", amount: 300 });
  await daemon.api("PUT", "/state/shared/axe", { value: { a: [1, 2] }, ttl: "1d" });
  const refused = (await daemon.api("GET", "/automations/a11y-hook")) as { liveUrl: string };
  await fetch(refused.liveUrl, { method: "POST", headers: { "content-type": "application/json" }, body: "{" });
  const failed = await newest(daemon, "a11y-failing");
  const { executionId } = (await daemon.api("POST", `/executions/${failed}/replay`, {})) as { executionId: string };
  return { failed, replayed: executionId, turns: await daemon.run("a11y-turns", {}), waiting: await newest(daemon, "approval") };
}

export interface View {
  /** The file of the page in `src/pages`. */
  page: string;
  name: string;
  path: (ids: Shown) => string;
  /** The file of the sheet or the dialog that is open. */
  dialog?: string;
  /** Acts on the page, and waits for the view that is examined. */
  act?: (page: Page, daemon: Daemon) => Promise<void>;
  /** The widths of the window in which it is examined; absent for all. */
  widths?: number[];
}

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const type = async (page: Page, text: string) => {
  await page.getByRole("textbox", { name: "Text of the file" }).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type(text);
};

export const VIEWS: View[] = [
  { page: "Automations", name: "automations", path: () => "/", act: (page) => expect(page.getByRole("row").nth(2)).toBeVisible() },
  {
    page: "Automations",
    name: "the keys",
    dialog: "KeyMap",
    path: () => "/",
    act: async (page) => {
      await page.keyboard.press("?");
      await expect(page.getByRole("dialog")).toBeVisible();
    },
  },
  {
    page: "Automations",
    name: "the palette",
    dialog: "Palette",
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
  {
    page: "Executions",
    name: "the sheet of many replays",
    dialog: "BulkBar",
    path: () => "/executions?automation=a11y-turns",
    act: async (page) => {
      await button(page, "Replay 1…").click();
      await expect(page.getByRole("dialog").getByText("Replay 1 execution?")).toBeVisible();
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
    name: "the inspector as a sheet of a narrow window",
    dialog: "Pane",
    path: ({ failed }) => `/executions/${failed}`,
    widths: [360],
    act: async (page) => {
      await page.setViewportSize({ width: 360, height: 800 });
      await page.getByRole("tree", { name: "Steps" }).getByText("broken").click();
      await expect(page.getByRole("dialog")).toBeVisible();
    },
  },
  {
    page: "Execution",
    name: "the sheet of a replay",
    dialog: "ReplaySheet",
    path: ({ failed }) => `/executions/${failed}`,
    act: async (page) => {
      await button(page, "Replay…").click();
      await expect(page.getByRole("dialog").getByRole("table")).toBeVisible();
    },
  },
  {
    page: "Execution",
    name: "the sheet of a test",
    dialog: "TestSheet",
    path: ({ failed }) => `/executions/${failed}`,
    act: async (page) => {
      await button(page, "Save as test…").click();
      await expect(page.getByRole("dialog").locator("pre")).toBeVisible();
    },
  },
  {
    page: "Execution",
    name: "the sheet of a trial on the draft",
    dialog: "TrySheet",
    path: ({ turns }) => `/executions/${turns}`,
    act: async (page) => {
      await button(page, "More actions").click();
      await page.getByRole("menuitem", { name: "Try on the draft …" }).click();
      await expect(page.getByText("1 same", { exact: true })).toBeVisible();
    },
  },
  {
    page: "Execution",
    name: "a trial compared with its record",
    dialog: "TrialCompare",
    path: ({ turns }) => `/executions/${turns}`,
    act: async (page) => {
      await button(page, "More actions").click();
      await page.getByRole("menuitem", { name: "Try on the draft …" }).click();
      await page.getByRole("button", { name: /^Compare 0/ }).click();
      await expect(page.getByRole("region", { name: "Trial", exact: true })).toBeVisible();
    },
  },
  {
    page: "Compare",
    name: "two executions compared",
    path: ({ failed, replayed }) => `/executions/${failed}/compare/${replayed}`,
    act: (page) => expect(page.getByRole("heading").nth(1)).toBeVisible(),
  },
  { page: "Inbox", name: "the inbox", path: () => "/inbox", act: (page) => expect(page.getByRole("form").first()).toBeVisible() },
  {
    page: "Events",
    name: "the own events with a kept one",
    path: () => "/events?q=a11y",
    act: async (page, daemon) => {
      await daemon.api("POST", "/events", { name: "a11y.sent", data: { order: "a-17" } });
      await page.getByText("Kept for steps that wait later").click();
      await expect(page.getByRole("listitem").first()).toBeVisible();
    },
  },
  {
    page: "Events",
    name: "an event that is sent by hand",
    dialog: "SendEvent",
    path: () => "/events?q=a11y",
    act: async (page) => {
      await button(page, "Send a11y.sent").click();
      await expect(page.getByRole("dialog").getByLabel("order *")).toBeVisible();
    },
  },
  {
    page: "Messages",
    name: "the messages of brokers",
    path: () => "/messages",
    act: (page) => expect(page.getByRole("heading", { name: "Messages", exact: true }).or(page.getByText("No enabled automation starts by messages")).last()).toBeVisible(),
  },
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
    name: "the sheet that saves, with trials",
    path: () => "/automations/a11y-tried?tab=source",
    act: async (page) => {
      await type(page, "  - {id: more, set: {y: 2}}");
      await page.keyboard.press("Control+s");
      await button(page, "Try on recorded executions").click();
      await expect(page.getByRole("table", { name: "Tried executions" })).toContainText("differs");
    },
  },
  {
    page: "Automation",
    name: "the plan of a draft",
    path: () => "/automations/a11y-planned?tab=both&plan=yes",
    act: async (page) => {
      await type(page, "  - {id: more, set: {y: 2}}");
      await expect(page.getByRole("region", { name: "Plan" })).toContainText("more");
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
    dialog: "PayloadSheet",
    path: () => "/automations/a11y-hook?tab=test",
    act: async (page) => {
      await button(page, "+ New").click();
      await expect(page.getByRole("dialog").getByRole("region", { name: "What steps would read" })).toBeVisible();
    },
  },
  {
    page: "Automation",
    name: "an address that is replaced",
    dialog: "Addresses",
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
    name: "the choice of a secret",
    dialog: "ChooseSecret",
    path: () => "/automations/a11y-signed?tab=test&drawer=configure",
    act: async (page) => {
      await button(page, "Choose… the secret for Secret").click();
      await expect(page.getByRole("dialog").getByLabel("Name")).toHaveValue("a11yHook");
    },
  },
  {
    page: "Automation",
    name: "an automation that is deleted",
    dialog: "DeleteSheet",
    path: () => "/automations/a11y-signed",
    act: async (page) => {
      await button(page, "More actions").click();
      await page.getByRole("menuitem", { name: "Delete …" }).click();
      await expect(page.getByRole("dialog")).toContainText("a11y-signed.yaml");
    },
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
    dialog: "ChangeTrigger",
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
    dialog: "CompareSheet",
    path: ({ failed }) => `/executions/${failed}`,
    act: async (page) => {
      await button(page, "More actions").click();
      await page.getByRole("menuitem", { name: "Compare with …" }).click();
      await expect(page.getByRole("dialog").getByRole("link").first()).toBeVisible();
    },
  },
  { page: "Automation", name: "an automation that is not there", path: () => "/automations/nowhere", act: (page) => expect(page.getByRole("alert")).toBeVisible() },
];
