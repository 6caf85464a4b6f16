import { expect, test } from "vitest";

import { moved } from "./menu";

test("the arrow keys go round in a menu, Home and End to its ends, and other keys nowhere", () => {
  expect(moved("ArrowDown", -1, 3)).toBe(0);
  expect(moved("ArrowDown", 2, 3)).toBe(0);
  expect(moved("ArrowUp", 0, 3)).toBe(2);
  expect(moved("ArrowUp", -1, 3)).toBe(2);
  expect(moved("Home", 2, 3)).toBe(0);
  expect(moved("End", 0, 3)).toBe(2);
  expect(moved("x", 0, 3)).toBeUndefined();
});
