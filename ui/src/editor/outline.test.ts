import { expect, test } from "vitest";

import { applied, errorsByStep, placeOfKey, stepAt, valueAt } from "./outline";

const step = (id: string, from: number, to: number) => ({ id, verb: "set", at: [], from, to });

test("the innermost step at a position is found, also at its end", () => {
  const outline = [step("outer", 10, 50), step("inner", 20, 30), step("last", 60, 70)];
  expect(stepAt(outline, 25)?.id).toBe("inner");
  expect(stepAt(outline, 30)?.id).toBe("inner");
  expect(stepAt(outline, 35)?.id).toBe("outer");
  expect(stepAt(outline, 55)).toBeUndefined();
});

test("a path resolves to a value, or to nothing", () => {
  const data = { steps: [{ with: { a: 1 } }] };
  expect(valueAt(data, ["steps", 0, "with", "a"])).toBe(1);
  expect(valueAt(data, ["steps", 1, "with"])).toBeUndefined();
  expect(valueAt(null, ["a"])).toBeUndefined();
});

test("changes are applied at their positions in the old text", () => {
  expect(applied("abc def", [{ from: 0, to: 1, insert: "xx" }, { from: 4, to: 7, insert: "" }])).toBe("xxbc ");
});

test("errors are counted for their step, and warnings are not", () => {
  const problem = (id: string | null, severity: "error" | "warning") => ({ step: id, severity });
  const found = errorsByStep([problem("a", "error"), problem("a", "error"), problem("b", "warning"), problem(null, "error")]);
  expect([...found]).toEqual([["a", 2]]);
});

test("a key is found inside its step, and not in an earlier one", () => {
  const text = "steps:\n  - id: a\n    with: {x: 1}\n  - id: b\n    with: {x: 2}\n";
  const second = { from: text.indexOf("- id: b"), to: text.length };
  expect(placeOfKey(text, second, ["steps", 1, "with"])).toBe(text.lastIndexOf("with"));
  expect(placeOfKey(text, second, ["steps", 1, "retry"])).toBe(text.length);
});
