/** The page of one execution. */

import { readFileSync } from "node:fs";

import type { Page } from "@playwright/test";

import { expect, test } from "./harness";
import { draw } from "./look";

const FLAKY = `name: Flaky order
trigger: {webhook: {mode: sync, timeout: 30s, verify: none}}
steps:
  - {id: first, set: {x: 1}}
  - id: broken
    name: Get the order
    action: http.request
    retry: {max: 2, delay: 10ms}
    with: {method: GET, url: "http://127.0.0.1:1/orders/\${{ trigger.results.body.data.id }}"}
  - {id: never, set: {y: 2}}
onError:
  - {id: tell, action: log.error, with: {message: "the order is lost"}}
`;
const LOOP = `trigger: {manual: {}}
steps:
  - id: list
    set: {items: "\${{ range(60) }}"}
  - id: each
    forEach: vars.items
    failFast: false
    steps:
      - {id: odd, if: "item == 7", fail: "item seven is gone"}
      - {id: say, action: log.info, with: {message: "item \${{ item }}"}}
`;
const LARGE = `trigger: {webhook: {mode: sync, verify: none}}
steps:
  - {id: keep, set: {items: "\${{ trigger.results.body.data.items }}"}}
  - {id: done, stop: {result: 1}}
`;
const QUESTION = `trigger: {manual: {}}
steps:
  - {id: before, set: {x: 1}}
  - id: ask
    waitFor: {approval: {message: "Buy it?", options: [approve, reject]}}
  - {id: after, set: {y: 2}}
`;

const graph = (page: Page) => page.getByRole("tree", { name: "Steps" });
const box = (page: Page, step: string) => graph(page).locator(`[role=treeitem][data-step="${step}"]`);
const inspector = (page: Page) => page.getByRole("region", { name: "Inspector" });

async function failed(daemon: { write: (path: string, text: string) => Promise<void>; send: (id: string, body: unknown) => Promise<Response> }) {
  await daemon.write("automations/flaky-order.yaml", FLAKY);
  const answer = await daemon.send("flaky-order", { id: 4711 });
  expect(answer.status).toBe(500);
  return answer.headers.get("x-execution-id") ?? "";
}

test("the verdict comes first: step, attempts, reason, its line then and now, and the response", async ({ open, daemon }) => {
  const id = await failed(daemon);
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(open.getByText("Step broken failed after 3 attempts")).toBeVisible();
  await expect(open.getByRole("link", { name: "automations/flaky-order.yaml:5" })).toBeVisible();
  await expect(open.getByText(/The caller got 500 after .*, since the execution failed/)).toBeVisible();
  await expect(open.getByText(/worked .*, waited /)).toBeVisible();
  await daemon.write("automations/flaky-order.yaml", `# one\n# two\n${FLAKY}`);
  await open.reload();
  await expect(open.getByText("(line 7 in today's file)")).toBeVisible();
  await expect(open.getByText("The graph is that of the version that ran")).toBeVisible();
});

test("each attempt has its time, its error and its input", async ({ open, daemon }) => {
  const id = await failed(daemon);
  await open.goto(`${daemon.base}/executions/${id}`);
  const attempts = open.getByRole("region", { name: "Attempts" });
  await expect(attempts.getByRole("row")).toHaveCount(4);
  await inspector(open).getByRole("tab", { name: "Input" }).click();
  await expect(inspector(open).getByText("http://127.0.0.1:1/orders/4711").first()).toBeVisible();
  await expect(inspector(open).getByText("Evaluated again from the log")).toBeVisible();
  const row = open.getByRole("region", { name: "Timeline" }).getByRole("button", { name: /broken/ });
  await expect(row.locator(".segment.work")).toHaveCount(3);
  await expect(row.locator(".segment.next")).toHaveCount(2);
  await expect(open.getByText(/waited .* for the next attempt, 2 times/)).toBeVisible();
  await expect(open.getByRole("region", { name: "Timeline" }).getByRole("button", { name: /never/ })).toContainText("not run");
});

test("a value is switched to text and back to a tree", async ({ open, daemon }) => {
  await open.goto(`${daemon.base}/executions/${await failed(daemon)}?step=broken&tab=error`);
  await inspector(open).getByRole("button", { name: "As text" }).first().click();
  await expect(inspector(open).locator("pre").filter({ hasText: '"kind": "network"' })).toBeVisible();
  await inspector(open).getByRole("button", { name: "As text" }).first().click();
  await expect(inspector(open).locator("pre").filter({ hasText: '"kind": "network"' })).toHaveCount(0);
});

test("rare actions of an execution are in a menu, and nearly all in a narrow window", async ({ open, daemon }) => {
  const id = await failed(daemon);
  await open.goto(`${daemon.base}/executions/${id}`);
  const shown = open.locator(".at-foot").getByRole("button").or(open.locator(".at-foot").getByRole("link"));
  await expect(shown).toHaveText(["Replay…", "Save as test…", "Compare with …", "Export", "⋯"]);
  await open.getByRole("button", { name: "More actions" }).click();
  await expect(open.getByRole("menuitem")).toHaveText(["Try on the draft …", "New automation from its payload"]);
  await open.keyboard.press("Escape");
  await open.setViewportSize({ width: 360, height: 800 });
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(shown).toHaveText(["Replay…", "⋯"]);
  await expect(open.getByRole("button", { name: "Save as test…" })).toBeHidden();
  await open.getByRole("button", { name: "More actions" }).click();
  await open.getByRole("menuitem", { name: "Save as test…" }).click();
  await expect(open.getByRole("dialog", { name: /as a test$/ })).toBeVisible();
});

test("the scrubber shows any moment and puts its event into the URL", async ({ open, daemon }) => {
  const id = await failed(daemon);
  await open.goto(`${daemon.base}/executions/${id}?event=2`);
  await expect(box(open, "first")).toHaveAccessibleName(/succeeded/i);
  await expect(box(open, "broken")).toHaveAccessibleName(/not run/);
  await open.getByRole("slider", { name: "Event" }).focus();
  await open.keyboard.press("ArrowRight");
  await expect(open).toHaveURL(/event=3/);
  await expect(box(open, "broken")).toHaveAccessibleName(/running/i);
  await open.getByRole("button", { name: "Back to the end" }).click();
  await expect(box(open, "broken")).toHaveAccessibleName(/failed/i);
  expect(open.url()).not.toContain("event=");
});

test("a large value shows its size until it is loaded", async ({ open, daemon }) => {
  await daemon.write("automations/large.yaml", LARGE);
  const items = Array.from({ length: 40_000 }, (_, index) => `item number ${index} with some text`);
  const answer = await daemon.send("large", { items });
  const id = answer.headers.get("x-execution-id") ?? "";
  const bodies: Promise<Buffer>[] = [];
  open.on("response", (response) => {
    if (response.url().includes("/api/v1/executions/")) bodies.push(response.body());
  });
  const bytes = async () => (await Promise.all(bodies)).reduce((sum, body) => sum + body.length, 0);
  await open.goto(`${daemon.base}/executions/${id}?step=keep`);
  await expect(inspector(open).getByRole("button", { name: "Load" })).toBeVisible();
  expect(await bytes()).toBeLessThan(200_000);
  await draw(open, "too large");
  await inspector(open).getByRole("button", { name: "Load" }).click();
  const tree = inspector(open).getByRole("tree");
  await expect(tree.getByText("[40000]")).toBeVisible();
  expect(await bytes()).toBeGreaterThan(1_000_000);
  await tree.focus();
  await open.keyboard.press("ArrowDown");
  await open.keyboard.press("ArrowRight");
  await open.keyboard.press("End");
  await expect(tree.getByText("item number 39999 with some text")).toBeVisible();
  expect(await tree.getByRole("treeitem").count()).toBeLessThan(100);
});

test("a loop shows the failed iteration, and any other on request", async ({ open, daemon }) => {
  await daemon.write("automations/turns.yaml", LOOP);
  const id = await daemon.run("turns", {});
  await open.goto(`${daemon.base}/executions/${id}`);
  await expect(graph(open).getByText("8/60")).toBeVisible();
  await expect(inspector(open).getByText("odd[7]")).toBeVisible();
  await open.getByRole("button", { name: "Next turn of each" }).click();
  await expect(graph(open).getByText("9/60")).toBeVisible();
  await box(open, "say").click();
  await expect(open).toHaveURL(/step=say/);
  await inspector(open).getByRole("tab", { name: /Logs/ }).click();
  await expect(inspector(open).getByText("item 8", { exact: true })).toBeVisible();
  await open.goto(`${daemon.base}/executions/${id}?step=${encodeURIComponent("say[59]")}&tab=input`);
  await expect(inspector(open).getByText("item 59").first()).toBeVisible();
});

test("an export is a static page that opens by itself", async ({ open, daemon, context }) => {
  const id = await failed(daemon);
  await open.goto(`${daemon.base}/executions/${id}`);
  const downloading = open.waitForEvent("download");
  await open.getByRole("button", { name: "Export" }).click();
  const download = await downloading;
  expect(download.suggestedFilename()).toBe(`execution-${id}.html`);
  const path = await download.path();
  const text = readFileSync(path, "utf8");
  expect(text).not.toContain("<script");
  const page = await context.newPage();
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.setContent(text);
  await expect(page.getByRole("heading", { name: "Timeline" })).toBeVisible();
  await expect(page.getByText("cannot be reached").first()).toBeVisible();
  expect(requests.filter((url) => url.startsWith("http"))).toEqual([]);
});

test("a running execution is followed until its end", async ({ open, daemon }) => {
  await daemon.write("automations/question.yaml", QUESTION);
  const { executionId } = (await daemon.api("POST", "/automations/question/run", {})) as { executionId: string };
  await open.goto(`${daemon.base}/executions/${executionId}`);
  await expect(open.getByText("Waits at step ask for a person")).toBeVisible();
  await expect(box(open, "ask")).toHaveAttribute("aria-selected", "true");
  await expect(open.getByRole("button", { name: "Following" })).toBeVisible();
  await daemon.api("POST", `/executions/${executionId}/signal`, { option: "approve", by: "Ada" });
  await expect(open.getByText(/Succeeded after/)).toBeVisible();
  await expect(box(open, "after")).toHaveAccessibleName(/succeeded/i);
  await expect(open.getByText(/for a person, ended by Ada/)).toBeVisible();
});

test("everything is reached by keyboard alone", async ({ open, daemon }) => {
  const id = await failed(daemon);
  await open.goto(`${daemon.base}/executions/${id}`);
  await box(open, "broken").focus();
  await open.keyboard.press("ArrowUp");
  await expect(box(open, "first")).toBeFocused();
  await expect(inspector(open).getByText("first", { exact: true })).toBeVisible();
  await open.keyboard.press("End");
  await expect(box(open, "tell")).toBeFocused();
  await open.keyboard.press("Enter");
  await expect(inspector(open).getByRole("tabpanel")).toBeFocused();
  await open.keyboard.press("e");
  await expect(inspector(open).getByRole("region", { name: "Source of the step" })).toContainText("the order is lost");
  await open.keyboard.press(",");
  await expect(open).toHaveURL(/event=\d+/);
  await open.keyboard.press(".");
  await expect(open).not.toHaveURL(/event=/);
  const rows = open.getByRole("region", { name: "Timeline" }).getByRole("button", { pressed: true });
  await rows.last().focus();
  await open.keyboard.press("ArrowUp");
  await expect(open).toHaveURL(/step=broken/);
});
