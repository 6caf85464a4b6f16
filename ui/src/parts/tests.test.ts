import { expect, it } from "vitest";

import { testsInWords } from "./tests";

it("a tab of tests has their number, and the number of those that failed", () => {
  const [passed, failed] = [{ result: "passed" }, { result: "failed" }];
  expect(testsInWords([])).toBe("Tests");
  expect(testsInWords([passed, { result: "skipped" }])).toBe("Tests 2 ✔");
  expect(testsInWords([passed, failed, passed])).toBe("Tests 1 of 3 ✖");
});
