import { expect, test } from "vitest";

import { type Schema, inputFields, schemaFields, shown, typed } from "./fields";

const root: Schema = {
  $defs: { "every.retry": { anyOf: [{ type: "integer" }, { type: "object" }], description: "How often" } },
  properties: {
    name: { type: "string" },
    retry: { $ref: "#/$defs/every.retry" },
    mode: { enum: ["sync", "async"] },
    steps: { type: "array", items: { type: "object" } },
    labels: { type: "array", items: { type: "string" } },
  },
  required: ["name"],
};

test("a schema yields fields by the type of value", () => {
  const fields = schemaFields(root, root, ["steps"]);
  expect(fields.map(({ key, kind }) => [key, kind])).toEqual([
    ["name", "text"],
    ["retry", "number"],
    ["mode", "choice"],
    ["labels", "list"],
  ]);
  expect(fields[0]?.required).toBe(true);
  expect(fields[1]?.about).toBe("How often");
});

test("declared inputs yield fields, others accept any value", () => {
  const kinds = (["text", "integer", "any"] as const).map((kind) => ({ name: kind, type: { kind }, required: false }));
  expect(inputFields(kinds).map(({ kind }) => kind)).toEqual(["text", "number", "any"]);
});

test("typed values keep their type, and an expression is a text", () => {
  expect(typed({ kind: "number" }, "3", undefined)).toBe(3);
  expect(typed({ kind: "number" }, "${{ vars.n }}", 3)).toBe("${{ vars.n }}");
  expect(typed({ kind: "any" }, "42", "41")).toBe("42");
  expect(typed({ kind: "any" }, "42", undefined)).toBe(42);
  expect(typed({ kind: "any" }, "{a", undefined)).toBe("{a");
  expect(typed({ kind: "list" }, "a, b,", [])).toEqual(["a", "b"]);
  expect(typed({ kind: "text" }, "", "x")).toBeUndefined();
});

test("a value that no field can show is left to the source", () => {
  expect(shown({ a: 1 })).toBeUndefined();
  expect(shown(["a", "b"])).toBe("a, b");
  expect(shown(undefined)).toBe("");
});
