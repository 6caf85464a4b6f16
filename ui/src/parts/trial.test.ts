import { describe, expect, it } from "vitest";

import type { Execution, Trial } from "../api/types";
import { counts, summary, trialEnds, trialRows, worstFirst } from "./trial";

const trial = (more: Partial<Trial>): Trial => ({ id: "1", verdict: "differs", sameSteps: 0, calls: 0, ...more });
const record = {
  steps: ["load", "save", "done"].map((step) => ({ step, status: "succeeded", attempts: 1, result: null, tookMs: 5 })),
} as unknown as Execution;

describe("trials", () => {
  it("are sorted by difference and counted", () => {
    const trials = [trial({ verdict: "same" }), trial({}), trial({ verdict: "newCall" }), trial({ verdict: "same" }), trial({})];
    expect(worstFirst(trials).map(({ verdict }) => verdict)).toEqual(["newCall", "differs", "differs", "same", "same"]);
    expect(counts(trials)).toBe("2 same · 2 differ · 1 new call");
    expect(counts([])).toBe("");
  });
});

describe("a trial in one line", () => {
  it("names the new call, or the reason", () => {
    const newCall = { step: "load", action: "http.request", inputs: {} };
    expect(summary(trial({ verdict: "newCall", newCall, steps: [{ step: "x" }] }))).toBe("step load would call http.request");
    expect(summary(trial({ verdict: "waits", reason: "for an answer" }))).toBe("for an answer");
  });
  it("has the outcome, the status of the response and some steps", () => {
    const steps = ["a", "b", "c", "d"].map((step) => ({ step }));
    const outcome = { recorded: { outcome: "failed" }, trial: { outcome: "succeeded" } };
    expect(summary(trial({ outcome, response: { recorded: { status: 201 }, trial: { status: 200 } }, steps }))).toBe(
      "failed → succeeded · response 201 → 200 · steps a, b, c and 1 more",
    );
    expect(summary(trial({ outcome: { recorded: outcome.trial, trial: outcome.trial } }))).toBe("another result");
    expect(summary(trial({ verdict: "same" }))).toBe("");
  });
});

describe("a trial beside its record", () => {
  it("has the steps that differ with both sides, then the equal ones", () => {
    const rows = trialRows(record, trial({
      steps: [
        { step: "save", recorded: { status: "succeeded", inputs: { id: 1 }, result: 1 }, trial: { status: "succeeded", inputs: { id: 2 }, result: 1 } },
        { step: "more", trial: { status: "succeeded", result: { x: 1 } } },
      ],
    }));
    expect(rows.map(({ step, same }) => [step, same])).toEqual([["save", false], ["more", false], ["load", true], ["done", true]]);
    expect(rows[0]?.changes).toEqual([{ name: "input", changes: [{ path: "id", left: 1, right: 2 }] }]);
    expect(rows[1]?.left).toBeUndefined();
  });
  it("omits inputs that the record does not have", () => {
    const [row] = trialRows(record, trial({
      steps: [{ step: "save", recorded: { status: "failed", result: null }, trial: { status: "succeeded", inputs: { id: 2 }, result: null } }],
    }));
    expect(row?.changes).toEqual([]);
  });
  it("ends at the call that the record has no answer for, with its input", () => {
    const newCall = { step: "notify", action: "mail.send", inputs: { to: "ada" } };
    const [row] = trialRows(record, trial({ verdict: "newCall", newCall }));
    expect(row?.right?.words).toContain("would call mail.send");
    expect(row?.changes[0]?.changes[0]?.right).toEqual({ to: "ada" });
  });
  it("compares the bodies of responses as JSON", () => {
    const response = (n: number) => ({ status: 200, body: { contentType: "application/json", size: 7, encoding: "utf8", data: `{"n":${n}}` } });
    expect(trialEnds(trial({ response: { recorded: response(1), trial: response(2) } }))).toEqual([
      { name: "response", changes: [{ path: "body.n", left: 1, right: 2 }] },
    ]);
  });
});
