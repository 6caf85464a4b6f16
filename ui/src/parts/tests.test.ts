import { expect, it } from "vitest";

import { testsInWords } from "./tests";

it("the tests tab shows the number of tests and of failures", () => {
  const [passed, failed] = [{ result: "passed" }, { result: "failed" }];
  expect(testsInWords([])).toBe("Tests");
  expect(testsInWords([passed, { result: "skipped" }])).toBe("Tests 2 ✔");
  expect(testsInWords([passed, failed, passed])).toBe("Tests 1 of 3 ✖");
});
