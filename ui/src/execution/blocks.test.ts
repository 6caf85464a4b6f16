import { expect, test } from "vitest";

import type { Graph, GraphStep, StepView } from "../api/types";
import { places } from "../graph/tree";
import { around, withBlocks } from "./blocks";
import { timeline } from "./segments";

const step = (id: string, verb: string, blocks: object[] = []) => ({ id, verb, blocks }) as unknown as GraphStep;
const graph = {
  steps: [
    step("both", "parallel", [
      { name: "left", kind: "parallel", steps: [step("nap", "wait")] },
      { name: "right", kind: "parallel", steps: [step("each", "forEach", [{ kind: "loop", steps: [step("page", "action")] }])] },
    ]),
  ],
} as unknown as Graph;
const all = places(graph);
const START = 1_800_000_000_000;
const at = (ms: number) => new Date(START + ms).toISOString();
const view = (key: string, status: string, more: Partial<StepView> = {}) =>
  ({ step: key, status, attempts: 1, startedAt: at(10), ...more }) as StepView;

test("enclosing blocks are found by their keys within the enclosing iterations", () => {
  expect(around("page[3]", all)).toEqual(["each", "both"]);
  expect(around("nap", all)).toEqual(["both"]);
  expect(around("unknown", all)).toEqual([]);
});

test("a block is open while a step inside it runs or waits, even before it is logged", () => {
  const shown = (steps: StepView[], ended = false) => withBlocks(steps, all, ended).map((one) => [one.step, one.status]);
  const nap = view("nap", "waiting", { on: { kind: "time" }, nextAt: at(900) });
  expect(shown([nap])).toEqual([["both", "waiting"], ["nap", "waiting"]]);
  expect(shown([nap, view("page[0]", "running")])).toEqual([
    ["both", "running"],
    ["nap", "waiting"],
    ["each", "running"],
    ["page[0]", "running"],
  ]);
  expect(shown([view("nap", "left")], true)).toEqual([["both", "left"], ["nap", "left"]]);
  expect(shown([nap, view("both", "succeeded")])).toEqual([["nap", "waiting"], ["both", "succeeded"]]);
});

test("a block whose steps only wait is waiting", () => {
  const steps = withBlocks([view("nap", "waiting", { on: { kind: "time" }, nextAt: at(900) })], all, false);
  const { rows, worked, waited } = timeline({ steps, waits: [], startedAt: at(0), now: START + 500, all });
  expect(rows.map(({ step: id }) => id)).toEqual(["both", "nap"]);
  expect(rows[0]?.segments).toMatchObject([{ kind: "next", from: 10, to: 500 }]);
  expect([worked, waited]).toEqual([0, 500]);

  const done = [
    view("nap", "succeeded", { finishedAt: at(400), tookMs: 390 }),
    view("page[0]", "succeeded", { startedAt: at(20), finishedAt: at(50), tookMs: 30 }),
    view("both", "succeeded", { finishedAt: at(401), tookMs: 391 }),
  ];
  const waits = [{ from: at(10), at: at(400), ms: 390, step: "nap", reason: { kind: "time" as const } }];
  const ended = timeline({ steps: done, waits, startedAt: at(0), finishedAt: at(401), now: 0, all });
  const both = ended.rows.find(({ step: id }) => id === "both");
  expect(both?.segments.map(({ kind, from, to }) => [kind, from, to])).toEqual([
    ["next", 10, 20],
    ["work", 20, 50],
    ["next", 50, 400],
    ["work", 400, 401],
  ]);
  expect([ended.worked, ended.waited]).toEqual([31, 370]);
});

test("the delay before an iteration is a wait of the loop", () => {
  const steps = [view("each", "succeeded", { finishedAt: at(300), tookMs: 290 }), view("page[1]", "succeeded", { startedAt: at(200), finishedAt: at(210), tookMs: 10 })];
  const waits = [{ from: at(100), at: at(200), ms: 100, step: "each[1]", reason: { kind: "time" as const } }];
  const { rows } = timeline({ steps, waits, startedAt: at(0), finishedAt: at(300), now: 0, all });
  expect(rows.find(({ step: id }) => id === "each")?.segments).toContainEqual({ kind: "next", from: 100, to: 200, reason: { kind: "time" } });
});
