import { expect, test } from "vitest";

import { MOST, type Place, executionOf, matching } from "./palette";

const places = ["Order intake", "Reorder paper", "Heartbeat", "Bored clerk"].map(
  (name): Place => ({ kind: "Automation", name, path: "/" }),
);
const names = (text: string) => matching(places, text).map(({ name }) => name);

test("a beginning goes before a word, a word before a part, a part before letters in order", () => {
  expect(names("order")).toEqual(["Order intake", "Reorder paper", "Bored clerk"]);
  expect(names("ore")).toEqual(["Bored clerk", "Order intake", "Reorder paper"]);
  expect(names("clerk")).toEqual(["Bored clerk"]);
  expect(names("htbt")).toEqual(["Heartbeat"]);
  expect(names("zzz")).toEqual([]);
});

test("no text offers the first places, and never too many", () => {
  expect(names("")).toHaveLength(4);
  expect(matching(Array.from({ length: 500 }, () => places[0] as Place), "o")).toHaveLength(MOST);
});

test("a beginning of an id is an execution", () => {
  expect(executionOf("01A204EE")?.path).toBe("/executions/01a204ee");
  expect(executionOf("01a204ee-9cac-7000-99f7-9b490872defa")?.kind).toBe("Execution");
  for (const text of ["", "01a", "order", "01a2 04", "../../x"]) {
    expect(executionOf(text)).toBeUndefined();
  }
});
