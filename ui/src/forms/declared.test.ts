import { expect, test } from "vitest";

import { declared, redeclared } from "./declared";

test("declared fields have a name, a type and if they are required", () => {
  expect(declared(undefined)).toEqual([]);
  expect(declared({ order: { type: "text", required: true }, amount: "number", kind: { options: ["a"] }, rest: {} })).toEqual([
    { name: "order", type: "text", required: true },
    { name: "amount", type: "number", required: false },
    { name: "kind", type: "choice", required: false },
    { name: "rest", type: "any", required: false },
  ]);
  expect(declared([1])).toBeUndefined();
  expect(declared({ order: 1 })).toBeUndefined();
});

test("a changed declaration keeps its other keys, and is short without any", () => {
  expect(redeclared("text", { type: "number", required: false })).toBe("number");
  expect(redeclared("text", { type: "text", required: true })).toEqual({ type: "text", required: true });
  expect(redeclared({ type: "text", required: true }, { type: "text", required: false })).toBe("text");
  expect(redeclared({ type: "text", description: "x" }, { type: "list", required: true })).toEqual({ type: "list", description: "x", required: true });
  expect(redeclared({ options: ["a"] }, { type: "choice", required: false })).toEqual({ type: "choice", options: ["a"] });
});
