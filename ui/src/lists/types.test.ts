import { expect, test } from "vitest";

import { inputType, resultType } from "./types";

test("types of inputs are described in words", () => {
  expect(inputType({ kind: "integer", min: 1, max: 9 })).toBe("whole number from 1 to 9");
  expect(inputType({ kind: "list", items: { kind: "choice", options: ["a", "b"] } })).toBe("list of one of a, b");
  expect(inputType({ kind: "object", fields: [{ name: "x", type: { kind: "text" }, required: true }] })).toBe("map with x");
});

test("types of results are described with their fields, and nested ones by name", () => {
  const page = { kind: "object", name: "Page", fields: [{ name: "id", type: { kind: "text" } }] } as const;
  const nested = { kind: "object", fields: [{ name: "pages", optional: true, type: { kind: "list", items: page } }], open: true } as const;
  expect(resultType(nested as never)).toBe("{pages?: list of {id: text}, …}");
  expect(resultType(nested as never, 1)).toBe("{pages?: list of Page, …}");
  expect(resultType({ kind: "oneOf", types: [{ kind: "text" }, { kind: "null" }] })).toBe("text or null");
});
