import { expect, it } from "vitest";

import type { Graph, GraphStep } from "../api/types";
import { columnOf, foldedAtFirst, lists, move, places, unrun, visible } from "./tree";
import { turns } from "./turns";

const span = { line: 1, column: 1, endLine: 1, endColumn: 2 };
const step = (id: string, more: Partial<GraphStep> = {}): GraphStep => ({
  id,
  name: null,
  verb: "set",
  label: "",
  span,
  needs: [],
  blocks: [],
  onError: null,
  undo: null,
  ...more,
});
const loop = (id: string, steps: GraphStep[]) => step(id, { verb: "forEach", blocks: [{ name: null, kind: "loop", steps }] });
const graph: Graph = {
  triggers: [{ id: "main", enabled: true, kind: "manual", label: "", span }],
  steps: [step("a"), loop("each", [step("b"), loop("inner", [step("c")])]), step("d", { onError: [step("e")] })],
  finally: [step("f")],
};
const all = places(graph);

it("a step knows its level, its list and the loops around it", () => {
  expect([...all.keys()]).toEqual(["a", "each", "b", "inner", "c", "d", "e", "f"]);
  const place = all.get("c");
  expect([place?.level, place?.list, place?.loops.map(({ id }) => id)]).toEqual([3, "each turn", ["each", "inner"]]);
  expect([all.get("d")?.position, all.get("d")?.size]).toEqual([3, 3]);
});

it("a step at any depth belongs to one list of each enclosing step", () => {
  const choice = step("choice", {
    verb: "if",
    blocks: [
      { name: "then", kind: "case", steps: [step("yes")] },
      { name: "else", kind: "case", steps: [loop("again", [step("no")])] },
    ],
  });
  const found = places({ ...graph, steps: [choice] });
  expect(["yes", "no", "again", "choice", "f"].map((id) => columnOf(choice, id, found))).toEqual([0, 1, 1, undefined, undefined]);
});

it("the arrow keys follow the drawn tree", () => {
  const press = (key: string, at: string, folded: string[] = []) => move(key, at, graph, all, new Set(folded));
  expect(press("ArrowDown", "a")).toEqual({ select: "each" });
  expect(press("ArrowDown", "each")).toEqual({ select: "b" });
  expect(press("ArrowDown", "each", ["each"])).toEqual({ select: "d" });
  expect(press("ArrowUp", "d")).toEqual({ select: "c" });
  expect(press("ArrowRight", "each")).toEqual({ select: "b" });
  expect(press("ArrowRight", "each", ["each"])).toEqual({ unfold: "each" });
  expect(press("ArrowLeft", "c")).toEqual({ select: "inner" });
  expect(press(" ", "each")).toEqual({ fold: "each" });
  expect(press(" ", "a")).toBeUndefined();
  expect(press("ArrowDown", "f")).toBeUndefined();
  expect(press("End", "a")).toEqual({ select: "f" });
});

it("Arrow Down reaches every visible step, whatever is folded", () => {
  for (const folded of [[], ["each"], ["inner"], ["each", "d"]]) {
    const set = new Set(folded);
    const walked = [visible(graph, set)[0] ?? ""];
    for (;;) {
      const next = move("ArrowDown", walked.at(-1) ?? "", graph, all, set);
      if (!next || !("select" in next)) {
        break;
      }
      walked.push(next.select);
    }
    expect(walked).toEqual(visible(graph, set));
  }
});

it("a loop shows its first failed iteration within that of the enclosing loop", () => {
  const inner = all.get("inner")?.step;
  if (!inner) {
    throw new Error("it is there");
  }
  const view = (key: string, status: "failed" | "succeeded") => ({ step: key, status, attempts: 1 });
  const views = [view("c[0][0]", "succeeded"), view("c[0][1]", "failed"), view("c[1][0]", "failed")];
  expect(turns(inner, [0], views)).toEqual({ count: 2, failed: [1], first: 1 });
  expect(turns(inner, [1], views)).toEqual({ count: 1, failed: [0], first: 0 });
  expect(turns(inner, [2], views)).toEqual({ count: 0, failed: [], first: 0 });
});

it("a graph of a thousand steps is laid out within 50 ms and folds deep steps", () => {
  const deep = Array.from({ length: 100 }, (_, index) =>
    loop(`l${index}`, [loop(`m${index}`, Array.from({ length: 8 }, (_, inner) => step(`s${index}-${inner}`)))]),
  );
  const large: Graph = { ...graph, steps: deep };
  const began = performance.now();
  const found = places(large);
  const folded = foldedAtFirst(found);
  const shown = visible(large, folded);
  expect(performance.now() - began).toBeLessThan(50);
  expect(found.size).toBe(1001);
  expect(shown).toHaveLength(201);
});

it("unrun steps are missing from a block that ran and are not error handlers", () => {
  const ran = (step: string, status: "succeeded" | "skipped" = "succeeded") => ({ step, status });
  expect(unrun(all, [ran("a")])).toEqual(["each", "d", "f"]);
  expect(unrun(all, [ran("a"), ran("each"), ran("b[0]"), ran("d"), ran("f")])).toEqual(["inner"]);
  expect(unrun(all, [ran("a"), ran("each", "skipped"), ran("d"), ran("f")])).toEqual([]);
});

it("a step shows its lists in the order in which they run", () => {
  const closing = step("a", { onError: [step("b")], finally: [step("c")], undo: [step("d")] });
  expect(lists(closing).map(({ title }) => title)).toEqual(["on error", "finally", "undo ↶"]);
});
