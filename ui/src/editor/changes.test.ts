import { expect, test } from "vitest";

import { countChanges, unsaved } from "./changes";

test("adjacent differing lines are one change", () => {
  expect(countChanges("a\nb\nc\n", "a\nb\nc\n")).toBe(0);
  expect(countChanges("a\nb\nc\n", "a\nx\nc\n")).toBe(1);
  expect(countChanges("a\nb\nc\n", "x\ny\nb\nz\nc\n")).toBe(2);
  expect(countChanges("a\nb\nc\nd\n", "a\nd\n")).toBe(1);
  expect([unsaved(1), unsaved(2)]).toEqual(["1 unsaved change", "2 unsaved changes"]);
});
