/** The verdict on an execution: what failed, else what it waits for, else its result. */

import type { DelayReason, Execution } from "../api/types";
import { duration } from "../format";

export interface Verdict {
  kind: "failed" | "waiting" | "plain";
  text: string;
}

/** The sentence that an execution begins with. */
export function verdict(execution: Execution): Verdict {
  const { outcome, waiting } = execution;
  if (outcome && "error" in outcome) {
    const { step, message } = outcome.error;
    const attempts = execution.steps.find((one) => one.step === step || one.step.startsWith(`${step}[`))?.attempts ?? 1;
    const after = attempts > 1 ? ` after ${attempts} attempts` : "";
    return { kind: "failed", text: `${step ? `Step ${step} failed` : "Failed"}${after}: ${message}` };
  }
  if (outcome && "reason" in outcome) {
    return { kind: "plain", text: `Cancelled: ${outcome.reason}` };
  }
  if (outcome) {
    return { kind: "plain", text: `Succeeded after ${duration(execution.tookMs)}.` };
  }
  const pause = waiting?.pauses?.[0];
  if (pause) {
    const what: Record<string, string> = {
      approval: "for a person",
      event: `for the event ${"name" in pause.on ? pause.on.name : ""}`,
      time: "for an instant",
      call: "for an automation that it called",
    };
    const more = (waiting?.pauses?.length ?? 1) - 1;
    return {
      kind: "waiting",
      text: `Waits at step ${pause.step} ${what[pause.on.kind] ?? ""}${more > 0 ? `, and at ${more} more` : ""}.`,
    };
  }
  if (waiting?.turn) {
    const { key, ahead, holders } = waiting.turn;
    return {
      kind: "waiting",
      text: `Waits for its turn with the concurrency key ${key}: ${ahead} before it${holders[0] ? `, ${holders[0]} has the turn` : ""}.`,
    };
  }
  if (waiting?.queuedBehind !== undefined) {
    return { kind: "waiting", text: `Waits for a slot: ${waiting.queuedBehind} before it.` };
  }
  return { kind: "plain", text: "Runs." };
}

/** What an execution or a step waited for although it did not ask for it. */
export function cause(reason: DelayReason): string {
  switch (reason.kind) {
    case "slot":
      return "a slot";
    case "permit":
      return `its turn with ${reason.key || "its concurrency key"}`;
    case "commit":
      return "a commit";
    case "host":
      return reason.host;
  }
}

/** The answer that the caller of a webhook got; `undefined` if nobody waited. */
export function answer(execution: Execution): string | undefined {
  if (execution.answered !== undefined) {
    return `The caller got ${execution.answered}; the execution went on.`;
  }
  if (execution.response) {
    return `The caller got ${execution.response.status}.`;
  }
  return undefined;
}
