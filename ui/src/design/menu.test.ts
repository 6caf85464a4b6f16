import { expect, test } from "vitest";

import { moved } from "./menu";

test("arrow keys wrap around in a menu, Home and End go to its ends, other keys do nothing", () => {
  expect(moved("ArrowDown", -1, 3)).toBe(0);
  expect(moved("ArrowDown", 2, 3)).toBe(0);
  expect(moved("ArrowUp", 0, 3)).toBe(2);
  expect(moved("ArrowUp", -1, 3)).toBe(2);
  expect(moved("Home", 2, 3)).toBe(0);
  expect(moved("End", 0, 3)).toBe(2);
  expect(moved("x", 0, 3)).toBeUndefined();
});
