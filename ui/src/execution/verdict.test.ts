import { expect, it } from "vitest";

import type { Execution, Pause } from "../api/types";
import { answer, verdict } from "./verdict";

const base: Execution = {
  id: "1",
  automation: "a",
  definition: "d",
  origin: { kind: "webhook" },
  status: "failed",
  startedAt: "2026-03-02T12:00:00Z",
  attempt: 1,
  events: 3,
  payload: { kind: "manual", inputs: {} },
  steps: [{ step: "get", status: "failed", attempts: 4 }],
};

it("a failure names its step, its attempts and its reason", () => {
  const error = { kind: "network", message: "connection refused", step: "get" } as const;
  const outcome = { outcome: "failed", error } as const;
  expect(verdict({ ...base, outcome })).toEqual({
    kind: "failed",
    text: "Step get failed after 4 attempts: connection refused",
  });
});

it("a wait names its step, its reason and its holder", () => {
  const pause: Pause = {
    execution: "1",
    automation: "a",
    automationName: "A",
    step: "ask",
    since: base.startedAt,
    on: { kind: "approval", message: "?", options: ["yes"] },
  };
  expect(verdict({ ...base, waiting: { pauses: [pause, pause] } }).text).toBe("Waits at step ask for a person, and at 1 more.");
  const turn = { key: "k", holders: ["2"], ahead: 3 };
  expect(verdict({ ...base, waiting: { turn } }).text).toContain("3 before it, 2 has the turn");
});

it("the answer of the caller is that which was recorded", () => {
  expect(answer({ ...base, answered: 504 })).toBe("The caller got 504; the execution went on.");
  expect(answer({ ...base, response: { status: 201, headers: [], body: { contentType: "", size: 0, encoding: "utf8", data: "" } } })).toBe("The caller got 201.");
  expect(answer(base)).toBeUndefined();
});
