/** Recorded executions on a text that is not saved, and tests from executions. */

import { api, data } from "./client";
import type { TestDraft, TrialResults } from "./types";

export const tryDraft = (path: string, text: string, executions: string[], tests: boolean): Promise<TrialResults> =>
  data(api.POST("/api/v1/trials", { body: { path, text, executions, tests } }));

export const testFrom = (id: string, name: string): Promise<TestDraft> =>
  data(api.POST("/api/v1/tests/from-execution", { body: { id, ...(name.trim() ? { name } : {}) } }));
