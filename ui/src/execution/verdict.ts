/** The verdict on an execution: its failure, else its wait, else its result; then the response to the caller. */

import type { ActionError, CallerAnswer, DelayReason, Execution, Outcome, Pause } from "../api/types";
import { clock, duration, short } from "../format";
import { idOf } from "../graph/key";
import { instant } from "./instant";

export interface Verdict {
  kind: "failed" | "waiting" | "plain";
  text: string;
}

/** The sentence that an execution begins with. */
export function verdict(execution: Execution): Verdict {
  const { outcome, waiting } = execution;
  if (outcome && "error" in outcome) {
    const { step, message } = outcome.error;
    const attempts = execution.steps.find((one) => idOf(one.step) === step)?.attempts ?? 1;
    const after = attempts > 1 ? ` after ${attempts} attempts` : "";
    const what = outcome.outcome === "stuck" ? "is stuck" : "failed";
    return { kind: "failed", text: `${step ? `Step ${step} ${what}` : `It ${what}`}${after}: ${message}` };
  }
  if (outcome?.outcome === "cancelled") {
    return { kind: "plain", text: `Cancelled: ${outcome.reason}` };
  }
  if (outcome) {
    const end = execution.finishedAt ?? execution.startedAt;
    return { kind: "plain", text: `Succeeded after ${duration(instant(end) - instant(execution.startedAt))}.` };
  }
  if (waiting?.forStore) {
    return { kind: "waiting", text: "Waits for the store, which refuses a write of it; the write is tried again." };
  }
  const pause = waiting?.pauses?.[0];
  if (pause) {
    const more = (waiting?.pauses?.length ?? 1) - 1;
    const rest = more > 0 ? `, and at ${more} more` : "";
    return { kind: "waiting", text: `Waits at step ${pause.step} ${purpose(pause)}${rest}.` };
  }
  if (waiting?.turn) {
    const { key, ahead } = waiting.turn;
    const which = key === "" ? "" : ` with the concurrency key ${key}`;
    return { kind: "waiting", text: `Waits for its turn${which}${since(execution)}: ${before(ahead)}.` };
  }
  if (waiting?.queuedBehind !== undefined) {
    return { kind: "waiting", text: `Waits for ${waiting.forMemory ? "memory for its data" : "a slot of the daemon"}${since(execution)}: ${before(waiting.queuedBehind)}.` };
  }
  if (execution.status === "queued") {
    // Its place is known where it waits, which may be another daemon.
    return { kind: "waiting", text: `Waits for its turn${since(execution)}.` };
  }
  if (execution.retryAt !== undefined) {
    return { kind: "waiting", text: `Waits for attempt ${execution.attempt} of the whole execution.` };
  }
  return { kind: "plain", text: "Runs." };
}

/** The wait of a whole execution for its turn, a slot or memory, which has not ended; `undefined` if it does not wait for one. */
export function queueOf({ waiting, attempt, startedAt, steps, waits }: Execution): { from: string; reason: DelayReason } | undefined {
  const reason: DelayReason | undefined = waiting?.turn
    ? { kind: "permit", key: waiting.turn.key, ...(waiting.turn.holders[0] === undefined ? {} : { holder: waiting.turn.holders[0] }) }
    : waiting?.queuedBehind === undefined
      ? undefined
      : { kind: waiting.forMemory ? "memory" : "slot" };
  if (!reason) {
    return undefined;
  }
  // The recorded waits of an execution that has begun came before its present wait.
  const ends = [...steps.flatMap((step) => step.finishedAt ?? []), ...(waits ?? []).map(({ at }) => at)];
  const from = attempt === 1 && steps.length === 0 ? startedAt : ends.reduce((last, at) => (instant(at) > instant(last) ? at : last), startedAt);
  return { from, reason };
}

const before = (count: number) => (count === 0 ? "it is the next one" : `${count} before it`);

/** The time since which an execution waits in a queue: its start, unless a later attempt of it waits. */
const since = ({ attempt, startedAt }: Execution) => (attempt > 1 ? "" : ` since ${clock(startedAt)}`);

/** The purpose of a pause. */
function purpose({ on, until }: Pick<Pause, "on" | "until">): string {
  switch (on.kind) {
    case "approval":
      return "for a person, who answers here, in the inbox or at the resume address";
    case "event":
      return `for the event ${on.name}`;
    case "time":
      return until === undefined ? "for a pause to end" : `until ${clock(until)}, when its pause ends`;
    case "call":
      return "for an automation that it called";
    case "operation": {
      const looks = on.looks === 0 ? "not looked yet" : on.looks === 1 ? "looked once" : `looked ${on.looks} times`;
      return `for the operation ${on.id} of the service; ${looks}${until === undefined ? "" : `, looks again at ${clock(until)}`}`;
    }
  }
}

const DECIDED: Record<CallerAnswer["by"], string> = {
  accepted: "at once, the default answer of an asynchronous webhook",
  static: "at once, the response of the trigger",
  code: "at once, decided by the code of the trigger",
  respond: "decided by a respond step",
  result: "the result of the execution",
  failure: "since the execution failed",
  timeout: "the timeout of the webhook",
};

/** The response to the caller of a webhook; `undefined` without a caller. */
export function answer(execution: Execution): string | undefined {
  const { caller } = execution;
  if (caller?.state === "waits") {
    return "The caller waits for its answer.";
  }
  if (caller?.state === "left") {
    return "The caller got no answer: the daemon stopped while it waited.";
  }
  if (!caller?.answer) {
    return undefined;
  }
  const { status, by, at } = caller.answer;
  const after = duration(Math.max(0, instant(at) - instant(execution.startedAt)));
  const { finishedAt } = execution;
  const went = finishedAt === undefined ? "goes on" : `went on for ${duration(Math.max(0, instant(finishedAt) - instant(at)))}`;
  const how = by === "timeout" ? `${DECIDED[by]}; the execution ${went}` : DECIDED[by];
  return how.startsWith("at once")
    ? `The caller got ${status} ${how}.`
    : `The caller got ${status} after ${after}, ${how}.`;
}

/** The error of an outcome; `undefined` if it has none. */
export const errorOf = (outcome: Outcome | undefined): ActionError | undefined =>
  outcome && "error" in outcome ? outcome.error : undefined;

/** A cause of a wait in words. */
export function cause(reason: DelayReason): string {
  switch (reason.kind) {
    case "slot":
      return "a slot of the daemon";
    case "memory":
      return "memory for its data";
    case "permit":
      return reason.key ? `its turn with the key ${reason.key}` : "its turn";
    case "commit":
      return "a durable commit";
    case "host":
      return `the host ${reason.host}`;
    case "interrupted":
      return "the daemon, which had stopped";
    case "retry":
      return "the next attempt";
    case "time":
      return "a pause";
    case "event":
      return `the event ${reason.name}`;
    case "approval":
      return "a person";
    case "call":
      return "the automation that it called";
    case "operation":
      return `the operation ${reason.id} of the service`;
  }
}

/** The page of the awaited thing: an execution, the hosts, the questions; `undefined` if it has no page. */
export function targetOf(reason: DelayReason): { path: string; name: string } | undefined {
  const of = holder(reason);
  if (of !== undefined) {
    return { path: `/executions/${of}`, name: reason.kind === "permit" ? `behind ${short(of)}` : short(of) };
  }
  switch (reason.kind) {
    case "host":
      return { path: "/status", name: "hosts" };
    case "approval":
      return { path: "/inbox", name: "inbox" };
    case "slot":
    case "memory":
      return { path: "/status", name: "status" };
    default:
      return undefined;
  }
}

/** The execution that a wait is for; `undefined` if it is for none, or for an unknown one. */
export function holder(reason: DelayReason): string | undefined {
  return reason.kind === "permit" ? reason.holder : reason.kind === "call" ? reason.execution : undefined;
}
