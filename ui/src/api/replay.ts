/** Replays and operations on many executions. */

import { api, segment } from "./client";

export interface RepeatedCall {
  step: string;
  action: string;
  connection?: string;
  /** True if the call may change something. */
  writes: boolean;
  list: string;
  /** True if the execution made this call. */
  called: boolean;
}

export interface ReplayPlan {
  executionId?: string;
  replayOf: string;
  automation: string;
  definition: string;
  test: boolean;
  from?: string;
  keptSteps: number;
  calls: RepeatedCall[];
}

export interface ReplayOptions {
  from?: string;
  payload?: unknown;
  definition?: "current" | "original";
  test?: boolean;
}

/** Returns what a replay would do, or starts it. */
export const replay = (id: string, options: ReplayOptions, dryRun: boolean, signal?: AbortSignal): Promise<ReplayPlan> =>
  api("POST", `/executions/${segment(id)}/replay`, { ...options, dryRun }, signal);

export interface Operation {
  id?: string;
  action: string;
  state: "planned" | "running" | "stopped" | "finished";
  total: number;
  done: number;
  failed: number;
  /** The number of replays that call other systems. */
  calling?: number;
  skipped?: number;
  failures?: { id: string; message: string }[];
}

export interface Selection {
  ids?: string[];
  filter?: { automation?: string; status?: string[]; test?: boolean };
}

/** Returns the count of an operation on many executions, or starts it. */
export const bulk = (action: "replay" | "cancel", selection: Selection, dryRun: boolean): Promise<Operation> =>
  api("POST", "/executions/bulk", { action, ...selection, dryRun });

export const progress = (id: string): Promise<Operation> => api("GET", `/executions/bulk/${segment(id)}`);

export const stop = (id: string): Promise<Operation> => api("DELETE", `/executions/bulk/${segment(id)}`);
