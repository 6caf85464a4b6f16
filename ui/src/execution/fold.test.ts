import { describe, expect, it } from "vitest";

import type { EventView } from "../api/types";
import { describe as words, fold } from "./fold";
import { randomLog } from "./random-log";
import { timeline } from "./segments";

const at = (ms: number) => new Date(1_800_000_000_000 + ms).toISOString();
const error = { kind: "network", message: "refused" };
const log: EventView[] = [
  { index: 0, event: "started", at: at(0), payload: {} },
  { index: 1, event: "stepStarted", at: at(1), step: "get", attempt: 1 },
  { index: 2, event: "stepRetry", at: at(5), step: "get", attempt: 1, error, nextAt: at(1005) },
  { index: 3, event: "stepStarted", at: at(1005), step: "get", attempt: 2 },
  { index: 4, event: "stepFinished", at: at(1010), step: "get", tookUs: 4000, outcome: { outcome: "succeeded", result: 7 } },
  { index: 5, event: "finished", at: at(1011), outcome: { outcome: "succeeded", result: 7 } },
];

describe("fold", () => {
  it("shows each moment as it was", () => {
    const status = (count: number) => fold(log.slice(0, count)).steps[0]?.status;
    expect([1, 2, 3, 4, 5].map(status)).toEqual([undefined, "running", "waiting", "running", "succeeded"]);
    expect(fold(log.slice(0, 5)).outcome).toBeUndefined();
    expect(fold(log).outcome?.outcome).toBe("succeeded");
  });

  it("has the attempts with their errors, and the wait between them", () => {
    const { steps, waits } = fold(log);
    expect(steps[0]).toMatchObject({ attempts: 2, result: 7, tookMs: 4 });
    expect(steps[0]?.tries).toEqual([
      { attempt: 1, startedAt: at(1), finishedAt: at(5), tookMs: 4, error },
      { attempt: 2, startedAt: at(1005), finishedAt: at(1010), tookMs: 4 },
    ]);
    expect(waits).toEqual([{ from: at(5), at: at(1005), ms: 1000, step: "get", reason: { kind: "retry" } }]);
  });

  it("keeps the microseconds of a begin, so that a bar does not move as the scrubber does", () => {
    const micro = (us: number) => new Date(1_800_000_000_000).toISOString().replace("Z", `${String(us).padStart(3, "0")}Z`);
    const events: EventView[] = [
      { index: 0, event: "started", at: micro(0), payload: {} },
      { index: 1, event: "stepFinished", at: micro(22), step: "customer", tookUs: 4, outcome: { outcome: "succeeded" } },
      { index: 2, event: "stepFinished", at: micro(30), step: "total", tookUs: 6, outcome: { outcome: "succeeded" } },
      { index: 3, event: "finished", at: micro(72), outcome: { outcome: "succeeded" } },
    ];
    const bars = (count: number) => {
      const moment = fold(events.slice(0, count));
      const { rows } = timeline({ ...moment, startedAt: micro(0), finishedAt: moment.at, now: 0 });
      return rows.map(({ segments }) => segments.map(({ from, to }) => [Math.round(from * 1000), Math.round(to * 1000)]));
    };
    expect(bars(2)).toEqual([[[18, 22]]]);
    expect(bars(3)).toEqual([[[18, 22]], [[24, 30]]]);
    expect(bars(4)).toEqual(bars(3));
    expect(fold(events).steps.map(({ startedAt }) => startedAt)).toEqual([micro(18), micro(24)]);
  });

  it("names who ended a pause", () => {
    const events: EventView[] = [
      { index: 0, event: "started", at: at(0) },
      { index: 1, event: "waiting", at: at(1), step: "ask", on: { kind: "approval" } },
      { index: 2, event: "signalled", at: at(9), step: "ask", signal: { id: "s", by: "Ada" } },
      { index: 3, event: "waitEnded", at: at(9), step: "ask", signal: "s" },
    ];
    expect(fold(events).waits).toMatchObject([{ reason: { kind: "approval" }, ms: 8, by: "Ada" }]);
  });

  it("leaves no step running after the end, whatever the log", () => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const events = randomLog(seed);
      const { steps, outcome } = fold(events);
      const open = steps.filter(({ status }) => ["running", "waiting", "handling"].includes(status));
      expect(outcome ? open : [], `seed ${seed}`).toEqual([]);
      expect(events.every((event) => words(event) !== "")).toBe(true);
    }
  });
});
