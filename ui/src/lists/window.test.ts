import { expect, test } from "vitest";

import { distance, inSight } from "./window";

test("the rows in sight and some beyond them are drawn, and no more", () => {
  expect(inSight(0, 900, 30, 100_000)).toEqual({ first: 0, last: 42 });
  expect(inSight(-200, 900, 30, 100_000)).toEqual({ first: 0, last: 42 });
  expect(inSight(3000, 900, 30, 100_000)).toEqual({ first: 88, last: 142 });
  expect(inSight(2_999_100, 900, 30, 100_000)).toEqual({ first: 99_958, last: 100_000 });
});

test("a short list is drawn as a whole, also if the window was scrolled further", () => {
  expect(inSight(0, 900, 30, 3)).toEqual({ first: 0, last: 3 });
  expect(inSight(60_000, 900, 30, 3)).toEqual({ first: 3, last: 3 });
  expect(inSight(0, 900, 30, 0)).toEqual({ first: 0, last: 0 });
});

test("the window scrolls to a row that is out of sight, and only then", () => {
  expect(distance(5, 100, 900, 30)).toBe(0);
  expect(distance(0, -300, 900, 30)).toBe(-330);
  expect(distance(100, 100, 900, 30)).toBe(2260);
});
