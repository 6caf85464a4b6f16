/** Recorded executions on a text that is not saved, and tests from executions. */

import { api, data } from "./client";
import type { TestDraft, TrialResults } from "./types";

/** The text that a file of tests would have. */
export interface TestText {
  path: string;
  text: string;
}

export const tryDraft = (path: string, text: string, executions: string[], tests: boolean, testFiles: TestText[] = []): Promise<TrialResults> =>
  data(api.POST("/api/v1/trials", { body: { path, text, executions, tests, testFiles } }));

export const testFrom = (id: string, name: string): Promise<TestDraft> =>
  data(api.POST("/api/v1/tests/from-execution", { body: { id, ...(name.trim() ? { name } : {}) } }));
