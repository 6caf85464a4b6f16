/** The shapes of the API that the page of an execution uses: wider than the generated ones, since it folds events itself. */

import type { Graph } from "./model";

export type Status = "queued" | "running" | "waiting" | "succeeded" | "failed" | "cancelled" | "stuck" | "skipped";

export interface Automation {
  id: string;
  name: string;
  description?: string;
  labels: string[];
  enabled: boolean;
  state: "active" | "stale" | "disabled";
  trigger: string;
  path: string;
  definition: string;
  liveUrl?: string;
  testUrl?: string;
  nextFires: string[];
  refused: Record<string, number>;
  errors: number;
  warnings: number;
}

export interface Broken {
  path: string;
  diagnostics: Diagnostic[];
}

export interface Diagnostic {
  severity: string;
  code: string;
  message: string;
  line?: number;
  column?: number;
  endLine?: number;
  endColumn?: number;
  help?: string;
  /** The valid name closest to the one found. */
  nearest?: string;
  fix?: { line: number; column: number; endLine: number; endColumn: number; text: string };
}

export interface Input {
  name: string;
  type: { kind: string; options?: string[] };
  required: boolean;
  default?: unknown;
  description?: string;
}

export interface AutomationDetail extends Automation {
  source: string;
  diagnostics: Diagnostic[];
  plan: Graph;
  inputs: Input[];
}

export interface Origin {
  kind: string;
  execution?: string;
  step?: string;
  /** The execution that a replay replays. */
  of?: string;
  from?: string;
}

export interface ExecutionRow {
  id: string;
  automation: string;
  definition: string;
  origin: Origin;
  status: Status;
  startedAt: string;
  finishedAt?: string;
  tookMs?: number;
  error?: string;
  pauses?: { count: number; first: { step: string; kind: string; until?: string }[] };
}

export interface ActionError {
  kind: string;
  message: string;
  step?: string;
  status?: number;
}

export interface StepView {
  step: string;
  status: Status | "handling" | "left";
  action?: string;
  connection?: string;
  request?: { method: string; url: string };
  automation?: string;
  executions?: string[];
  attempts?: number;
  startedAt?: string;
  finishedAt?: string;
  tookMs?: number;
  result?: unknown;
  error?: ActionError;
  /** What its call was sent, if that is known. */
  input?: unknown;
  /** True if a replay keeps its outcome: the step did not run here. */
  kept?: boolean;
}

export interface Pause {
  execution: string;
  automation: string;
  automationName?: string;
  step: string;
  since: string;
  until?: string;
  on: { kind: string; message?: string; options?: string[]; name?: string };
  form?: Input[];
}

export interface Response {
  status: number;
  headers: [string, string][];
  body: FileValue | null;
}

export interface FileValue {
  contentType: string;
  size: number;
  encoding: string;
  data: string;
}

export interface Execution extends ExecutionRow {
  attempt: number;
  payload: { kind: string; [name: string]: unknown };
  steps: StepView[];
  outcome?: { outcome: string; result?: unknown; error?: ActionError; reason?: string };
  response?: Response;
  answered?: number;
  /** The ids of its replays, newest first. */
  replays?: string[];
  waiting?: {
    pauses?: Pause[];
    queuedBehind?: number;
    turn?: { key: string; holders: string[]; ahead: number };
    resumeUrl?: string;
  };
  waits?: { at: string; ms: number; step?: string; reason: { kind: string; key?: string; holder?: string; host?: string } }[];
}

export interface LogLine {
  at: string;
  level: string;
  step?: string;
  message: string;
}
