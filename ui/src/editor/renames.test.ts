import { expect, test } from "vitest";

import { areOf, holding, testPaths, withRename } from "./renames";

test("successive renames of a step are merged, and cancel out if it gets its old name", () => {
  const one = withRename([], { from: "a", to: "b" });
  const two = withRename(one, { from: "b", to: "c" });
  expect(two).toEqual([{ from: "a", to: "c" }]);
  expect(withRename(two, { from: "x", to: "y" })).toEqual([{ from: "a", to: "c" }, { from: "x", to: "y" }]);
  expect(withRename(two, { from: "c", to: "a" })).toEqual([]);
});

test("an undone rename is dropped", () => {
  const renames = [{ from: "a", to: "b" }];
  expect(holding(renames, ["b", "c"])).toEqual(renames);
  expect(holding(renames, ["a", "c"])).toEqual([]);
  expect(holding(renames, ["c"])).toEqual([]);
});

test("the test file is beside the automation", () => {
  expect(testPaths("automations/sub/a.yml")).toEqual(["automations/sub/a.test.yaml", "automations/sub/a.test.yml"]);
});

test("tests that name another automation do not belong to this one", () => {
  expect([{}, { automation: "mine" }, { automation: "other" }, null].map((tests) => areOf(tests, "mine"))).toEqual([true, true, false, true]);
});
