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
