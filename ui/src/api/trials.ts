/** Recorded executions on a text that is not saved, and tests from executions. */

import { send } from "./request";

export interface Side {
  status?: string;
  action?: string;
  inputs?: unknown;
  result?: unknown;
  error?: string;
}

export interface Trial {
  id: string;
  verdict: "same" | "differs" | "newCall" | "notStarted" | "waits" | "notRun";
  reason?: string;
  newCall?: { step: string; action: string; inputs: unknown };
  outcome?: { recorded?: unknown; trial?: unknown };
  response?: { recorded?: unknown; trial?: unknown };
  steps?: { step: string; recorded?: Side; trial?: Side }[];
  sameSteps: number;
  calls: number;
}

export interface TestResult {
  name: string;
  result: "passed" | "failed" | "skipped";
  messages?: string[];
}

export interface Trials {
  executions: Trial[];
  tests: TestResult[];
}

export const tryDraft = (path: string, text: string, executions: string[], tests: boolean): Promise<Trials> =>
  send("POST", "/trials", { path, text, executions, tests });

export interface TestDraft {
  path: string;
  name: string;
  before?: string;
  text: string;
  expects: "full" | "endings" | "outcome";
}

export const testFrom = (id: string, name: string): Promise<TestDraft> =>
  send("POST", "/tests/from-execution", { id, ...(name.trim() ? { name } : {}) });
