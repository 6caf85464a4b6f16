import { describe, expect, it } from "vitest";

import type { StepView } from "../api/types";
import { align, brief, changes } from "./compare";

const step = (name: string, more: Partial<StepView> = {}): StepView => ({
  step: name,
  status: "succeeded",
  attempts: 1,
  result: null,
  ...more,
});

describe("the differences of two values", () => {
  it("are paths with both sides", () => {
    expect(changes({ a: [1, { b: 2 }] }, { a: [1, { b: 3 }], c: 4 })).toEqual([
      { path: "a[1].b", left: 2, right: 3 },
      { path: "c", left: undefined, right: 4 },
    ]);
  });
  it("are the whole values where their kinds differ, and none where they are equal", () => {
    expect(changes(1, { a: 1 })).toEqual([{ path: "", left: 1, right: { a: 1 } }]);
    expect(changes([1], { a: 1 })).toHaveLength(1);
    expect(changes(undefined, undefined)).toEqual([]);
    expect(changes({ a: null }, { a: null })).toEqual([]);
  });
  it("include the JSON inside files", () => {
    const file = (data: string) => ({ contentType: "application/json", size: 9, encoding: "utf8", data });
    expect(changes(file('{"a":1}'), file('{"a":2}'))).toEqual([{ path: "a", left: 1, right: 2 }]);
  });
});

describe("two executions", () => {
  it("are aligned by the paths of their steps", () => {
    const rows = align([step("a"), step("c")], [step("a"), step("b"), step("c"), step("d[0]")]);
    expect(rows.map((row) => row.step)).toEqual(["a", "b", "c", "d[0]"]);
    expect(rows.map((row) => row.same)).toEqual([true, false, true, false]);
  });
  it("differ in a step whose result, error, request or attempts differ", () => {
    const rows = align(
      [step("a", { result: { id: 1 } }), step("b", { attempts: 4 })],
      [step("a", { result: { id: 2 } }), step("b")],
    );
    expect(rows.map((row) => row.changes.map((one) => one.name))).toEqual([["result"], ["attempts"]]);
  });
  it("agree in a step that keeps its result", () => {
    const request = { method: "GET", url: "https://a.example" };
    expect(align([step("a", { request })], [step("a", { attempts: 0, kept: true })])[0]?.same).toBe(true);
  });
});

describe("a value in a few words", () => {
  it("is truncated, and a missing value is a dash", () => {
    expect(brief(undefined)).toBe("–");
    expect(brief({ a: 1 })).toBe('{"a":1}');
    expect(brief("x".repeat(90))).toHaveLength(81);
  });
});
