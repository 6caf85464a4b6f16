import { Text } from "@codemirror/state";
import { expect, it } from "vitest";

import { offset } from "./positions";

it("a column counts characters, and an emoji is one", () => {
  const doc = Text.of(["name: 🦀🦀 x", "b"]);
  expect(offset(doc, 1, 7)).toBe(6);
  expect(offset(doc, 1, 9)).toBe(10);
  expect(doc.sliceString(offset(doc, 1, 10), offset(doc, 1, 11))).toBe("x");
});

it("a position outside the text is clamped to it", () => {
  const doc = Text.of(["ab", "c"]);
  expect(offset(doc, 0, 0)).toBe(0);
  expect(offset(doc, 1, 99)).toBe(2);
  expect(offset(doc, 99, 99)).toBe(4);
  expect(offset(doc, undefined, undefined)).toBe(0);
});
