/** The results of tests in a few words. */

/** The name of a tab of tests with their number and a mark: `Tests 5 ✔`; with their failures `Tests 2 of 5 ✖`. */
export function testsInWords(tests: readonly { result: string }[]): string {
  if (tests.length === 0) {
    return "Tests";
  }
  const failed = tests.filter(({ result }) => result === "failed").length;
  return failed > 0 ? `Tests ${failed} of ${tests.length} ✖` : `Tests ${tests.length} ✔`;
}
