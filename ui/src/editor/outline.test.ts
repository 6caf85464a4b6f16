import { expect, test } from "vitest";

import { applied, stepAt, valueAt } from "./outline";

const step = (id: string, from: number, to: number) => ({ id, verb: "set", at: [], from, to });

test("the innermost step at a place is found, also at its end", () => {
  const outline = [step("outer", 10, 50), step("inner", 20, 30), step("last", 60, 70)];
  expect(stepAt(outline, 25)?.id).toBe("inner");
  expect(stepAt(outline, 30)?.id).toBe("inner");
  expect(stepAt(outline, 35)?.id).toBe("outer");
  expect(stepAt(outline, 55)).toBeUndefined();
});

test("a path leads to a value, or to nothing", () => {
  const data = { steps: [{ with: { a: 1 } }] };
  expect(valueAt(data, ["steps", 0, "with", "a"])).toBe(1);
  expect(valueAt(data, ["steps", 1, "with"])).toBeUndefined();
  expect(valueAt(null, ["a"])).toBeUndefined();
});

test("changes are applied at their places in the old text", () => {
  expect(applied("abc def", [{ from: 0, to: 1, insert: "xx" }, { from: 4, to: 7, insert: "" }])).toBe("xxbc ");
});
