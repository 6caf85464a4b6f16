/** The shapes of one execution, as the API has them. */

import type { ActionError, LogLine, Origin, Pause, Response, Status } from "./shapes";

export interface Range {
  line: number;
  column: number;
  endLine: number;
  endColumn: number;
}

export interface GraphStep {
  id: string;
  name: string | null;
  verb: string;
  label: string;
  span: Range;
  if?: string;
  action?: string;
  connection?: string;
  automation?: string;
  effect?: "pure" | "read" | "write";
  needs: string[];
  writtenNeeds?: string[];
  retries?: number;
  timeoutMs?: number;
  blocks: GraphBlock[];
  onError: GraphStep[] | null;
  continuesOnError?: boolean;
  undo: GraphStep[] | null;
}

export interface GraphBlock {
  name: string | null;
  kind: "case" | "loop" | "parallel" | "sequence";
  steps: GraphStep[];
}

export interface Graph {
  trigger: { kind: string; label: string; if?: string; span: Range };
  steps: GraphStep[];
  onError?: GraphStep[];
  finally?: GraphStep[];
}

export interface Definition {
  hash: string;
  automation: string;
  inForce: boolean;
  path: string;
  source: string;
  codeFiles?: { path: string; source: string }[];
  graph?: Graph;
}

export interface Try {
  attempt: number;
  startedAt?: string;
  finishedAt?: string;
  tookMs?: number;
  commitMs?: number;
  error?: ActionError;
}

export type StepStatus = Status | "handling" | "left";

export interface StepView {
  step: string;
  status: StepStatus;
  action?: string;
  connection?: string;
  request?: { method: string; url: string };
  automation?: string;
  executions?: string[];
  attempts: number;
  tries?: Try[];
  startedAt?: string;
  finishedAt?: string;
  tookMs?: number;
  nextAt?: string;
  on?: { kind: string; [name: string]: unknown };
  signals?: { at: string; name?: string; by?: string }[];
  left?: string;
  result?: unknown;
  error?: ActionError;
  handled?: unknown;
  /** True if a replay keeps its outcome: the step did not run here. */
  kept?: boolean;
}

export interface DelayReason {
  kind: string;
  key?: string;
  holder?: string;
  host?: string;
  name?: string;
  execution?: string;
}

export interface Delay {
  from: string;
  at: string;
  step?: string;
  reason: DelayReason;
  ms: number;
  by?: string;
}

export interface Outcome {
  outcome: string;
  result?: unknown;
  error?: ActionError;
  reason?: string;
}

export interface CallerAnswer {
  at: string;
  by: string;
  status: number;
  headers: [string, string][];
  body: unknown;
}

export interface Detail {
  id: string;
  automation: string;
  definition: string;
  origin: Origin;
  status: Status;
  startedAt: string;
  finishedAt?: string;
  tookMs?: number;
  events: number;
  attempt: number;
  retryAt?: string;
  payload: { kind: string; [name: string]: unknown };
  steps: StepView[];
  turns?: { step: string; count: number; failed: number; open: number; tookMs: number }[];
  waiting?: {
    pauses?: Pause[];
    queuedBehind?: number;
    turn?: { key: string; holders: string[]; ahead: number };
    resumeUrl?: string;
  };
  waits?: Delay[];
  caller?: { state: "answered" | "waits" | "left"; answer?: CallerAnswer };
  answered?: number;
  outcome?: Outcome;
  response?: Response;
  /** The ids of its replays, newest first. */
  replays?: string[];
}

/** One event of the log with its number. */
export interface EventView {
  index: number;
  event: string;
  at: string;
  step?: string;
  attempt?: number;
  [name: string]: unknown;
}

export interface DerivedInput {
  step: string;
  attempt: number;
  derived: true;
  input?: unknown;
  error?: ActionError;
  missing: { source: string; reason: string }[];
}

export type { ActionError, LogLine };

/** The id of a step without the turns of the loops around it. */
export const idOf = (key: string): string => key.replace(/\[.*$/, "");

/** The turns of the loops around a step, outermost first. */
export const turnsOf = (key: string): number[] => [...key.matchAll(/\[(\d+)\]/g)].map((match) => Number(match[1]));

/** An instant in milliseconds since 1970, with the microseconds that the daemon writes. */
export function instant(at: string): number {
  const finer = /\.\d{3}(\d+)/.exec(at)?.[1];
  return Date.parse(at) + (finer === undefined ? 0 : Number(`0.${finer}`));
}

/** An instant as the daemon writes it. */
export const iso = (ms: number): string => new Date(ms).toISOString();
