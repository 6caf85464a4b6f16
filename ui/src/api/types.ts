/** Short names of the shapes of the API. All of them are generated from the daemon's description: `make ui-types` writes `schema.d.ts`. */

import type { Readable } from "openapi-typescript-helpers";

import type { components } from "./schema";

/** As the client returns them. */
type Schemas = Readable<components["schemas"]>;

export type AnsweredQuestion = Schemas["AnsweredQuestion"];
export type Action = Schemas["Action"];
export type ActionError = Schemas["ActionError"];
export type Automation = Schemas["Automation"];
export type AutomationDetail = Schemas["AutomationDetail"];
export type AutomationStatistics = Schemas["AutomationStatistics"];
export type Broken = Schemas["Broken"];
export type CallerAnswer = Schemas["CallerAnswer"];
export type Capture = Schemas["Capture"];
export type Change = Schemas["TextChange"];
export type Checked = Schemas["Validated"];
export type CompletionItem = Schemas["CompletionItem"];
export type Connector = Schemas["Connector"];
export type ConnectorEvent = Schemas["ConnectorEvent"];
export type Connection = Schemas["Connection"];
export type ConnectionInput = Schemas["ConnectionInput"];
export type Definition = Schemas["Definition"];
export type Delay = Schemas["Delay"];
export type DelayReason = Schemas["DelayReason"];
export type Diagnostic = Schemas["Diagnostic"];
export type EventPage = Schemas["Events"];
/** An event of the log of an execution, with its index. */
export type EventView = Schemas["Event"];
export type Execution = Schemas["ExecutionDetail"];
export type ExecutionRow = Schemas["Execution"];
export type ExecutionNews = Schemas["ExecutionMessage"];
export type ExecutionsNews = Schemas["ExecutionsMessage"];
export type FileChanged = Schemas["FileChanged"];
export type FileErrors = Schemas["FileErrors"];
export type FileValue = Schemas["FileValue"];
export type Graph = Schemas["Graph"];
export type GraphBlock = Schemas["GraphBlock"];
export type GraphStep = Schemas["GraphStep"];
export type Host = Schemas["Host"];
export type HoverValue = Schemas["HoverValue"];
export type Input = Schemas["Input"];
export type InputType = Schemas["InputType"];
export type KeptEvent = Schemas["KeptEvent"];
export type LineRange = Schemas["LineRange"];
export type Listening = Schemas["Listening"];
export type LoginState = Schemas["LoginState"];
export type LogLine = Schemas["LogLine"];
export type NewFile = Schemas["NewFile"];
export type Operation = Schemas["EditOperation"];
export type Origin = Schemas["Origin"];
export type OwnEvent = Schemas["OwnEvent"];
export type Outcome = Schemas["Outcome"];
export type OutlineStep = Schemas["OutlineStep"];
/** A path in the tree of a file: keys and indices. */
export type Path = Schemas["PathSegment"][];
export type Pause = Schemas["Pending"];
export type Payload = Schemas["Payload"];
export type PayloadPreview = Schemas["PayloadPreview"];
export type Plan = Schemas["Plan"];
export type PollEntry = Schemas["PollEntry"];
export type PollsNews = Schemas["PollsMessage"];
export type ProjectFile = Schemas["ProjectFile"];
export type Refusal = Schemas["Refusal"];
export type ResultType = Schemas["ResultType"];
export type RunBody = Schemas["RunBody"];
export type SavedPayload = Schemas["SavedPayload"];
export type Scaffold = Schemas["Scaffold"];
export type SchedulePreview = Schemas["SchedulePreview"];
export type Secret = Schemas["Secret"];
export type StartPayload = Schemas["StartPayload"];
export type Status = Schemas["ExecutionStatus"];
export type StepInput = Schemas["StepInput"];
export type StepStatus = Schemas["StepStatus"];
export type StepView = Schemas["Step"];
export type Subscription = Schemas["Subscription"];
export type StoredPayload = Schemas["StoredPayload"];
export type TestDraft = Schemas["TestDraftView"];
export type Trial = Schemas["TrialView"];
export type TrialResults = Schemas["TrialResults"];
export type Try = Schemas["Try"];
