import { expect, it } from "vitest";

import { expression, reference } from "./reference";
import { pointer, rows, search, text } from "./rows";

const value = { status: 200, items: [{ id: "a/b" }, { id: "c" }], empty: [], big: { $large: { at: "/x", bytes: 9000, type: "list", start: "[" } } };
const open = (...keys: string[]) => ({ opened: new Set(keys), closed: new Set<string>(), depth: 1 });

it("only open branches have rows", () => {
  expect(rows(value, open()).map(({ key }) => key)).toEqual(["", "/status", "/items", "/empty", "/big"]);
  expect(rows(value, open("/items", "/items/1")).map(({ key }) => key)).toContain("/items/1/id");
  const closed = { opened: new Set<string>(), closed: new Set([""]), depth: 1 };
  expect(rows(value, closed)).toHaveLength(1);
});

it("a large value is a leaf until it is loaded", () => {
  const big = rows(value, open("/big")).find(({ key }) => key === "/big");
  expect(big?.large?.bytes).toBe(9000);
  const loaded = rows(value, open("/big"), new Map([["/x", [1, 2]]]));
  expect(loaded.filter(({ key }) => key.startsWith("/big")).map(({ value: item }) => item)).toEqual([[1, 2], 1, 2]);
});

it("a forged placeholder of a large value is shown as received", () => {
  for (const alike of [null, 7, "x", [], {}, { at: 1, bytes: 2, type: "text", start: "" }, { at: "/x" }]) {
    const found = rows({ body: { $large: alike } }, { opened: new Set(["/body"]), closed: new Set(), depth: 3 });
    expect(found.map(({ key }) => key).slice(0, 3)).toEqual(["", "/body", "/body/$large"]);
    expect(found.some(({ large }) => large)).toBe(false);
    expect(search({ $large: alike }, "$large").hits).toContain("/$large");
  }
});

it("a search opens the ancestors of each match", () => {
  const { open: needed, hits } = search(value, "A/B");
  expect(hits).toEqual(["/items/0/id"]);
  expect(rows(value, { opened: needed, closed: new Set(), depth: 0 }).map(({ key }) => key)).toContain("/items/0/id");
  expect(search(value, "").hits).toEqual([]);
});

it("a hundred thousand collapsed entries are one row", () => {
  const long = { list: Array.from({ length: 100_000 }, (_, index) => index) };
  expect(rows(long, open())).toHaveLength(2);
});

it("a path is shown as an expression and sent as a JSON pointer", () => {
  expect(reference("steps.get.results", ["items", 0, "id"])).toBe("${{ steps.get.results.items[0].id }}");
  expect(expression("trigger.results", ["headers", "x-id"])).toBe("trigger.results.headers['x-id']");
  expect(expression("trigger.results", ["it's"])).toBe("trigger.results['it\\'s']");
  expect(pointer(["a/b", 0, "~"])).toBe("/a~1b/0/~0");
});

it("a text is quoted, so that it differs from a number and from null", () => {
  expect(["1", 1, "null", null, "", "a\nb", undefined].map(text)).toEqual(['"1"', "1", '"null"', "null", '""', '"a\\nb"', "nothing"]);
});

it("a file among the values is collapsed at first and shows its type", () => {
  const file = { encoding: "kept", contentType: "image/png", filename: "a.png", size: 9 };
  const found = rows({ file, other: { a: 1 } }, { opened: new Set(), closed: new Set(), depth: 2 });
  expect(found.map(({ key }) => key)).toEqual(["", "/file", "/other", "/other/a"]);
  expect(found[1]?.file?.contentType).toBe("image/png");
});
