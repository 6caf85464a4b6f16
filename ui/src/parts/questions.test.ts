import { expect, test } from "vitest";

import { arrange, type Shown } from "./questions";

const open = (...keys: string[]) => keys.map((key) => ({ key, question: key }));
const marks = (shown: Shown<string>[]) => shown.map(({ key, isOpen }) => (isOpen ? key : `${key} answered`));

test("an answered question keeps its place while the questions are held", () => {
  const shown = arrange([], open("3", "2", "1"), false);
  const after = arrange(shown, open("2", "1"), true);
  expect(marks(after)).toEqual(["3 answered", "2", "1"]);
  expect(marks(arrange(after, open("2", "1"), false))).toEqual(["2", "1"]);
});

test("a new question moves no other while the questions are held", () => {
  const shown = arrange([], open("2", "1"), false);
  expect(marks(arrange(shown, open("3", "2", "1"), true))).toEqual(["2", "1", "3"]);
  expect(marks(arrange(shown, open("3", "2", "1"), false))).toEqual(["3", "2", "1"]);
});
