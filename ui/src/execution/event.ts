/** Events of an execution in words. */

import type { EventView } from "../api/types";

/** The words for an event, for the scrubber and for screen readers. */
export function describe(event: EventView | undefined): string {
  if (!event) {
    return "nothing yet";
  }
  const step = event.step === undefined ? "" : ` ${event.step}`;
  const outcome = (event["outcome"] as { outcome?: string } | undefined)?.outcome ?? "";
  const words: Record<string, string> = {
    started: "accepted",
    resumed: "resumed by another daemon",
    stepStarted: `step${step} began, attempt ${event.attempt ?? 1}`,
    stepRetry: `attempt ${event.attempt ?? 1} of step${step} failed`,
    stepFailed: `step${step} failed, its onError steps begin`,
    stepClosing: step.endsWith("#cut") ? `the lists of step${step.slice(0, -"#cut".length)} were cut off` : `step${step} ended: ${outcome}, its finally steps begin`,
    stepFinished: `step${step} ${outcome}`,
    stepCalled: `step${step} made a call`,
    stepDated: step.endsWith("#begun") ? `step${step.slice(0, -"#begun".length)} began` : step.endsWith("#checkpoint") ? `how far the call of step${step.slice(0, -"#checkpoint".length)} has come was recorded` : step.endsWith("#limit") ? `the time limit of the closing steps from${step.slice(0, -"#limit".length)} began` : `step${step} read the clock or the state`,
    waiting: `step${step} waits`,
    signalled: `a signal came for step${step}`,
    waitEnded: `the wait of step${step} ended`,
    responded: "the response was decided",
    failing: "failed, the closing steps begin",
    cancelling: "cancelled, the closing steps begin",
    clockSet: "the clock was set",
    waited: `a wait ended${step === "" ? "" : ` of step${step}`}`,
    answered: "the caller got a timeout",
    retried: "failed, and will be tried again",
    finished: `ended: ${outcome}`,
  };
  return words[event.event] ?? event.event;
}
