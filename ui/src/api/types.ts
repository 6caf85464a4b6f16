/** Short names of the shapes of the API. All of them are generated from the daemon's description: see `schema.d.ts`. */

import type { Readable } from "openapi-typescript-helpers";

import type { components } from "./schema";

/** As the client returns them. */
type Schemas = Readable<components["schemas"]>;

export type Status = Schemas["ExecutionStatus"];
export type Automation = Schemas["Automation"];
export type AutomationDetail = Schemas["AutomationDetail"];
export type AutomationStatistics = Schemas["AutomationStatistics"];
export type Broken = Schemas["Broken"];
export type Diagnostic = Schemas["Diagnostic"];
export type PlanStep = Schemas["GraphStep"];
export type Input = Schemas["Input"];
export type InputType = Schemas["InputType"];
export type ResultType = Schemas["ResultType"];
export type Action = Schemas["Action"];
export type Origin = Schemas["Origin"];
export type Payload = Schemas["Payload"];
export type FileValue = Schemas["FileValue"];
export type ActionError = Schemas["ActionError"];
export type HttpResponse = Schemas["HttpResponse"];
export type ExecutionRow = Schemas["Execution"];
export type Execution = Schemas["ExecutionDetail"];
export type StepView = Schemas["Step"];
export type Pause = Schemas["Pending"];
export type DelayReason = Schemas["DelayReason"];
export type LogLine = Schemas["LogLine"];
export type Connection = Schemas["Connection"];
export type Host = Schemas["Host"];
export type Refusal = Schemas["Refusal"];
export type Secret = Schemas["Secret"];
export type ProjectFile = Schemas["ProjectFile"];
export type Listening = Schemas["Listening"];
export type Capture = Schemas["Capture"];
export type SavedPayload = Schemas["SavedPayload"];
/** The shapes of the API that the pages use. */

import type { Graph } from "../execution/model";

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
