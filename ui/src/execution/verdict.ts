/** The verdict on an execution: what failed, else what it waits for, else its result; then what the caller got. */

import { duration } from "../format";
import { idOf, instant, type DelayReason, type Detail } from "./model";

export interface Verdict {
  kind: "failed" | "waiting" | "plain";
  text: string;
}

/** The sentence that an execution begins with. */
export function verdict(execution: Detail): Verdict {
  const { outcome, waiting } = execution;
  if (outcome?.error) {
    const { step, message } = outcome.error;
    const attempts = execution.steps.find((one) => idOf(one.step) === step)?.attempts ?? 1;
    const after = attempts > 1 ? ` after ${attempts} attempts` : "";
    const what = outcome.outcome === "stuck" ? "is stuck" : "failed";
    return { kind: "failed", text: `${step ? `Step ${step} ${what}` : `It ${what}`}${after}: ${message}` };
  }
  if (outcome?.reason !== undefined) {
    return { kind: "plain", text: `Cancelled: ${outcome.reason}` };
  }
  if (outcome) {
    const end = execution.finishedAt ?? execution.startedAt;
    return { kind: "plain", text: `Succeeded after ${duration(instant(end) - instant(execution.startedAt))}.` };
  }
  const pause = waiting?.pauses?.[0];
  if (pause) {
    const what: Record<string, string> = {
      approval: "for a person, who answers here, in the inbox or at the resume address",
      event: `for the event ${pause.on.name ?? ""}`,
      time: "for an instant",
      call: "for an automation that it called",
      retry: "for its next attempt",
    };
    const more = (waiting?.pauses?.length ?? 1) - 1;
    const rest = more > 0 ? `, and at ${more} more` : "";
    return { kind: "waiting", text: `Waits at step ${pause.step} ${what[pause.on.kind] ?? ""}${rest}.` };
  }
  if (waiting?.turn) {
    const { key, ahead } = waiting.turn;
    const which = key === "" ? "" : ` with the concurrency key ${key}`;
    return { kind: "waiting", text: `Waits for its turn${which}: ${before(ahead)}.` };
  }
  if (waiting?.queuedBehind !== undefined) {
    return { kind: "waiting", text: `Waits for a slot of the daemon: ${before(waiting.queuedBehind)}.` };
  }
  if (execution.retryAt !== undefined) {
    return { kind: "waiting", text: `Waits for attempt ${execution.attempt} of the whole execution.` };
  }
  return { kind: "plain", text: "Runs." };
}

const before = (count: number) => (count === 0 ? "it is the next one" : `${count} before it`);

const DECIDED: Record<string, string> = {
  accepted: "at once, the default answer of an asynchronous webhook",
  static: "at once, the response of the trigger",
  code: "at once, decided by the code of the trigger",
  respond: "decided by a respond step",
  result: "the result of the execution",
  failure: "since the execution failed",
  timeout: "the timeout of the webhook; the execution went on",
};

/** The answer that the caller of a webhook got; `undefined` if nobody called. */
export function answer(execution: Detail): string | undefined {
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
  const how = DECIDED[by] ?? by;
  return how.startsWith("at once")
    ? `The caller got ${status} ${how}.`
    : `The caller got ${status} after ${after}, ${how}.`;
}

/** A cause of a wait in words. */
export function cause(reason: DelayReason): string {
  const words: Record<string, string> = {
    slot: "a slot of the daemon",
    permit: reason.key ? `its turn with the key ${reason.key}` : "its turn",
    commit: "a durable commit",
    host: `the host ${reason.host ?? ""}`,
    interrupted: "the daemon, which had stopped",
    retry: "the next attempt",
    time: "an instant",
    event: `the event ${reason.name ?? ""}`,
    approval: "a person",
    call: "the automation that it called",
  };
  return words[reason.kind] ?? reason.kind;
}
