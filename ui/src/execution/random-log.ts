/** Logs of executions made by a seed, for tests: every order of events that a daemon may write, and more. */

import type { EventView } from "../api/types";

/** A small generator of numbers from 0 to 1 (mulberry32). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const START = Date.parse("2026-03-02T12:00:00Z");

/** The events of an execution in which steps overlap, wait, are tried again and stay open. */
export function randomLog(seed: number): EventView[] {
  const draw = random(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(draw() * from.length)] as T;
  let now = START;
  const events: EventView[] = [];
  const push = (event: string, rest: Record<string, unknown>) => {
    events.push({ index: events.length, event, at: new Date(now).toISOString(), ...rest } as EventView);
    now += Math.floor(draw() * 1000);
  };
  push("started", { automation: "a", payload: { kind: "manual" } });
  const keys = ["a", "b", "copy[0]", "copy[1]", "copy[2]", "poll"];
  const attempts = new Map<string, number>();
  const later = (most: number) => new Date(now + Math.floor(draw() * most)).toISOString();
  const error = { kind: "network", message: "refused" };
  const count = Math.floor(draw() * 40);
  for (let index = 0; index < count; index += 1) {
    const step = pick(keys);
    const attempt = (attempts.get(step) ?? 0) + 1;
    switch (pick(["start", "start", "retry", "finish", "finish", "wait", "signal", "waited", "resumed", "fail"])) {
      case "start":
        push("stepStarted", { step, attempt });
        break;
      case "retry":
        push("stepRetry", { step, attempt, error, nextAt: later(5000) });
        attempts.set(step, attempt);
        break;
      case "finish":
        push("stepFinished", {
          step,
          tookUs: Math.floor(draw() * 3_000_000),
          outcome: pick([
            { outcome: "succeeded", result: 1 },
            { outcome: "failed", error },
            { outcome: "skipped" },
          ]),
        });
        attempts.delete(step);
        break;
      case "wait":
        push("waiting", { step, on: { kind: pick(["time", "event"]) }, until: later(9000) });
        break;
      case "signal":
        push("waitEnded", { step });
        break;
      case "waited":
        push("waited", {
          ms: Math.floor(draw() * 5000),
          reason: { kind: pick(["slot", "commit", "host"]) },
          ...(draw() < 0.5 ? { step } : {}),
        });
        break;
      case "resumed":
        push("resumed", {});
        break;
      case "fail":
        push("stepFailed", { step, error });
        break;
    }
  }
  if (draw() < 0.7) {
    push("finished", { outcome: pick([{ outcome: "succeeded", result: null }, { outcome: "failed", error }]) });
  }
  return events;
}
