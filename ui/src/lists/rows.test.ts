import { expect, test } from "vitest";

import type { ExecutionRow } from "../api/types";
import { changed, merge, range, step, unseen } from "./rows";

const row = (number: number, status: ExecutionRow["status"] = "succeeded"): ExecutionRow => ({
  id: `id-${number}`,
  automation: "a",
  definition: "d",
  origin: { kind: "manual" },
  status,
  startedAt: new Date(1_800_000_000_000 + number * 1000).toISOString(),
  events: 2,
});
const ids = (rows: ExecutionRow[]) => rows.map(({ id }) => id);

test("a newer first page replaces its rows and keeps the older ones", () => {
  const rows = [row(3, "running"), row(2), row(1)];
  const merged = merge([row(5), row(4), row(3)], rows);
  expect(ids(merged)).toEqual(["id-5", "id-4", "id-3", "id-2", "id-1"]);
  expect(merged[2]?.status).toBe("succeeded");
});

test("a row removed from the first page is removed from the list", () => {
  expect(ids(merge([row(3), row(1)], [row(3), row(2), row(1), row(0)]))).toEqual(["id-3", "id-1", "id-0"]);
});

test("rows that are not in the list are counted", () => {
  expect(unseen([row(5), row(4), row(3)], [row(3), row(2)])).toBe(2);
  expect(unseen([row(3)], [row(3)])).toBe(0);
});

test("news update only listed rows whose status differs", () => {
  const rows = [row(1, "running"), row(2)];
  const news = [1, 2, 3].map((number) => ({ id: `id-${number}`, automation: "a", status: "succeeded" as const }));
  expect([...changed(rows, news)]).toEqual([["id-1", "succeeded"]]);
});

test("a range goes from one row to another in either direction", () => {
  const rows = [row(4), row(3), row(2), row(1)];
  expect(range(rows, "id-2", "id-4")).toEqual(["id-4", "id-3", "id-2"]);
  expect(range(rows, undefined, "id-3")).toEqual(["id-3"]);
  expect(range(rows, "gone", "id-1")).toEqual(["id-1"]);
  expect(range(rows, "id-1", "gone")).toEqual([]);
});

test("a step stays within the list", () => {
  const rows = [row(2), row(1)];
  expect([step(rows, undefined, 1), step(rows, "id-2", 1), step(rows, "id-1", 1)]).toEqual(["id-2", "id-1", "id-1"]);
  expect([step(rows, "id-2", -1), step([], undefined, 1)]).toEqual(["id-2", undefined]);
});
