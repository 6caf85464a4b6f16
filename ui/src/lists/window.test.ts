import { expect, test } from "vitest";

import { distance, elements, inSight } from "./window";

test("only the visible rows and some beyond them are rendered", () => {
  expect(inSight(0, 900, 30, 100_000)).toEqual({ first: 0, last: 42 });
  expect(inSight(-200, 900, 30, 100_000)).toEqual({ first: 0, last: 42 });
  expect(inSight(3000, 900, 30, 100_000)).toEqual({ first: 88, last: 142 });
  expect(inSight(2_999_100, 900, 30, 100_000)).toEqual({ first: 99_958, last: 100_000 });
});

test("a short list is rendered completely, also if the window was scrolled further", () => {
  expect(inSight(0, 900, 30, 3)).toEqual({ first: 0, last: 3 });
  expect(inSight(60_000, 900, 30, 3)).toEqual({ first: 3, last: 3 });
  expect(inSight(0, 900, 30, 0)).toEqual({ first: 0, last: 0 });
});

test("the window scrolls to a row that is out of sight, and only then", () => {
  expect(distance(5, 100, 900, 30)).toBe(0);
  expect(distance(0, -300, 900, 30)).toBe(-330);
  expect(distance(100, 100, 900, 30)).toBe(2260);
});

const rows = (from: number, count = 40) => Array.from({ length: count }, (_, index) => `row ${from + index}`);

test("scrolled by some rows, or with new ones at the top, each row keeps its element", () => {
  const before = elements(rows(0), new Map(), false);
  const after = elements(rows(3), before, false);
  expect(rows(3, 37).every((id) => after.get(id) === before.get(id))).toBe(true);
  expect(new Set(after.values()).size).toBe(40);
  const live = elements(["new", ...rows(0, 39)], before, false);
  expect(live.get("row 0")).toBe(before.get("row 0"));
});

test("scrolled further, the elements stay in their order and get other rows", () => {
  const before = elements(rows(0), new Map(), false);
  const after = elements(rows(24), before, false);
  expect([...after.values()]).toEqual([...before.values()]);
  expect([...elements(rows(60, 45), after, false).values()].slice(0, 40)).toEqual([...before.values()]);
  expect(elements(rows(90, 20), after, false).size).toBe(20);
});

test("the row that has the focus keeps its element", () => {
  const before = elements(rows(0), new Map(), false);
  expect(elements(rows(30), before, true).get("row 35")).toBe(before.get("row 35"));
});
