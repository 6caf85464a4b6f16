/** The origin of an execution. */

import type { Origin } from "../api/types";

/** The execution that a replay replays; `undefined` for another origin. */
export function replayOf(origin: Origin): string | undefined {
  return origin.kind === "replay" ? origin.of : undefined;
}

/** The step from which a replay ran again; `undefined` if all of them did, and for another origin. */
export function replayFrom(origin: Origin): string | undefined {
  return origin.kind === "replay" ? origin.from : undefined;
}

/** True if an execution is a test. */
export function isTest(origin: Origin): boolean {
  return origin.kind === "test" || ((origin.kind === "replay" || origin.kind === "call" || origin.kind === "emitted") && origin.test === true);
}
