import { expect, it } from "vitest";

import type { CallerAnswer, Execution } from "../api/types";
import { answer, verdict } from "./verdict";

const base: Execution = {
  id: "1",
  automation: "a",
  definition: "d",
  origin: { kind: "webhook" },
  status: "failed",
  startedAt: "2026-03-02T12:00:00Z",
  events: 3,
  attempt: 1,
  payload: { kind: "manual", inputs: {} },
  steps: [{ step: "get", status: "failed", attempts: 4 }],
};

it("a failure names its step, its attempts and its reason", () => {
  const error = { kind: "network" as const, message: "connection refused", step: "get" };
  const outcome = { outcome: "failed" as const, error };
  expect(verdict({ ...base, outcome })).toEqual({
    kind: "failed",
    text: "Step get failed after 4 attempts: connection refused",
  });
});

it("a wait names its step and its reason", () => {
  const on = { kind: "approval" as const, message: "Yes?", options: ["yes"] };
  const pause = { execution: "1", automation: "a", automationName: "A", step: "ask", since: base.startedAt, on };
  const { text } = verdict({ ...base, waiting: { pauses: [pause, pause] } });
  expect(text).toContain("Waits at step ask for a person");
  expect(text).toContain("and at 1 more");
  const turn = { key: "k", holders: ["2"], ahead: 3 };
  const { text: queued } = verdict({ ...base, waiting: { turn } });
  expect(queued).toMatch(/^Waits for its turn with the concurrency key k since .*\d\d:\d\d.*: 3 before it\.$/);
  expect(verdict({ ...base, status: "queued" }).text).toMatch(/^Waits for its turn since .*\d\d:\d\d.*\.$/);
  expect(verdict({ ...base, waiting: { forStore: true, pauses: [pause] } }).text).toMatch(/^Waits for the store/);
  expect(verdict({ ...base, attempt: 2, waiting: { turn } }).text).toBe("Waits for its turn with the concurrency key k: 3 before it.");
});

it("the response to the caller is shown with its step and time", () => {
  const got = (by: CallerAnswer["by"], status: number) => ({
    ...base,
    caller: { state: "answered" as const, answer: { at: "2026-03-02T12:00:01Z", by, status, headers: [], body: null } },
  });
  expect(answer(got("timeout", 504))).toBe(
    "The caller got 504 after 1.0 s, the timeout of the webhook; the execution goes on.",
  );
  expect(answer({ ...got("timeout", 504), finishedAt: "2026-03-02T12:00:07Z" })).toContain("; the execution went on for 6.0 s.");
  expect(answer(got("accepted", 200))).toContain("The caller got 200 at once");
  expect(answer({ ...base, caller: { state: "left" } })).toContain("no answer");
  expect(answer(base)).toBeUndefined();
});
