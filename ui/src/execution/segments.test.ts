import { describe, expect, it } from "vitest";

import type { Delay, StepView } from "../api/types";
import { position, timeline } from "./segments";

const START = 1_800_000_000_000;
const at = (ms: number) => new Date(START + ms).toISOString();
const done = (step: string, from: number, to: number, more: Partial<StepView> = {}): StepView => ({
  step,
  status: "succeeded",
  attempts: 1,
  startedAt: at(from),
  finishedAt: at(to),
  tookMs: to - from,
  ...more,
});
const draw = (steps: StepView[], waits: Delay[] = [], end = 100) =>
  timeline({ steps, waits, startedAt: at(0), finishedAt: at(end), now: 0 });

/** Steps that overlap, wait, are tried again and stay open, and waits of all kinds, drawn from a seed (mulberry32). */
function randomMoment(seed: number) {
  let state = seed >>> 0;
  const draw = (most: number) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * most);
  };
  const end = draw(20_000);
  const span = () => [draw(end), draw(end + 2000)].sort((one, other) => one - other) as [number, number];
  const steps = ["a", "b", "copy[0]", "copy[1]", "poll"].slice(draw(5)).map((step): StepView => {
    const [from, to] = span();
    const status = (["succeeded", "failed", "running", "waiting", "handling", "left", "skipped"] as const)[draw(7)] ?? "failed";
    const isOpen = status === "running" || status === "waiting" || status === "handling" || status === "left";
    const tries = Array.from({ length: draw(4) }, (_, index) => {
      const [startedAt, finishedAt] = span();
      return { attempt: index + 1, startedAt: at(startedAt), finishedAt: at(finishedAt), tookMs: finishedAt - startedAt };
    });
    return { ...done(step, from, to, { status, tries }), ...(isOpen ? { finishedAt: undefined, tookMs: undefined } : {}) };
  });
  const kinds = ["slot", "commit", "retry", "time", "event", "interrupted"] as const;
  const waits = Array.from({ length: draw(6) }, (): Delay => {
    const [from, to] = span();
    const step = [undefined, "a", "b", "copy[0]"][draw(4)];
    const reason = { kind: kinds[draw(6)] ?? "slot" } as Delay["reason"];
    return { from: at(from), at: at(to), ms: to - from, reason, ...(step === undefined ? {} : { step }) };
  });
  const finishedAt = draw(3) > 0 ? at(end) : undefined;
  return { steps, waits, startedAt: at(0), finishedAt, now: START + end };
}

describe("timeline", () => {
  it("has one row per step in start order", () => {
    expect(draw([done("b", 50, 100), done("a", 0, 50)]).rows.map(({ step }) => step)).toEqual(["a", "b"]);
  });

  it("shows each attempt and the waits between them", () => {
    const tries = [
      { attempt: 1, startedAt: at(0), finishedAt: at(10) },
      { attempt: 2, startedAt: at(60), finishedAt: at(70) },
    ];
    const wait: Delay = { from: at(10), at: at(60), ms: 50, step: "a", reason: { kind: "retry" } };
    const { rows, worked, waited } = draw([done("a", 60, 70, { attempts: 2, tries })], [wait], 70);
    expect(rows[0]?.segments.map(({ kind, from, to }) => [kind, from, to])).toEqual([
      ["work", 0, 10],
      ["next", 10, 60],
      ["work", 60, 70],
    ]);
    expect([worked, waited]).toEqual([20, 50]);
  });

  it("does not count a pause as work, and labels a commit", () => {
    const waits: Delay[] = [
      { from: at(10), at: at(90), ms: 80, step: "a", reason: { kind: "event", name: "paid" } },
      { from: at(90), at: at(95), ms: 5, step: "a", reason: { kind: "commit" } },
    ];
    const { rows, worked } = draw([done("a", 10, 100)], waits);
    expect(rows[0]?.segments.map(({ kind }) => kind)).toEqual(["next", "commit", "work"]);
    expect(worked).toBe(5);
  });

  it("folds the iterations of a loop into one row with the worst status", () => {
    const steps = Array.from({ length: 1000 }, (_, turn) =>
      done(`a[${turn}]`, turn * 10, turn * 10 + 5, turn === 7 ? { status: "failed" } : {}),
    );
    const { rows } = draw(steps, [], 10_000);
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({ step: "a", turns: 1000, status: "failed", worked: 5000 });
    expect(rows[0]?.segments.length).toBeLessThanOrEqual(200);
  });

  it("starts with the waits of the whole execution", () => {
    const wait: Delay = { from: at(0), at: at(40), ms: 40, reason: { kind: "permit", key: "", holder: "x" } };
    const { rows } = draw([done("a", 40, 100)], [wait]);
    expect(rows[0]).toMatchObject({ step: "", segments: [{ kind: "queue", from: 0, to: 40 }] });
  });

  it("extends to now while a step runs", () => {
    const steps: StepView[] = [{ step: "a", status: "running", attempts: 1, startedAt: at(20) }];
    const { rows, whole } = timeline({ steps, waits: [], startedAt: at(0), now: START + 100 });
    expect(whole).toBe(100);
    expect(rows[0]?.segments).toEqual([{ kind: "work", from: 20, to: 100, status: "running" }]);
  });

  it("shows each iteration and each attempt with its own status", () => {
    const turns = [done("page[0]", 0, 40), done("page[1]", 50, 90, { status: "failed" })];
    const { rows } = draw(turns);
    expect(rows[0]).toMatchObject({ status: "failed", turns: 2 });
    expect(rows[0]?.segments.map(({ from, status }) => [from, status])).toEqual([[0, "succeeded"], [50, "failed"]]);
    const tries = [
      { attempt: 1, startedAt: at(0), finishedAt: at(10), error: { kind: "network", message: "refused" } },
      { attempt: 2, startedAt: at(60), finishedAt: at(70) },
    ];
    const attempts = draw([done("a", 60, 70, { attempts: 2, tries: tries as StepView["tries"] & object })]).rows[0]?.segments;
    expect(attempts?.map(({ status }) => status)).toEqual(["failed", "succeeded"]);
  });

  it("draws the failed one of two concurrent iterations", () => {
    const { rows } = draw([done("page[0]", 0, 60), done("page[1]", 20, 40, { status: "failed" })]);
    expect(rows[0]?.segments.map(({ from, to, status }) => [from, to, status])).toEqual([
      [0, 20, "succeeded"],
      [20, 40, "failed"],
      [40, 60, "succeeded"],
    ]);
  });

  it("shows the wait of an execution for a permit while it lasts", () => {
    const queue = { from: at(0), reason: { kind: "permit" as const, key: "", holder: "x" } };
    const { rows, waited } = timeline({ steps: [], waits: [], startedAt: at(0), now: START + 70, queue });
    expect(rows[0]).toMatchObject({ step: "", segments: [{ kind: "queue", from: 0, to: 70, isOpen: true }] });
    expect(waited).toBe(70);
  });

  it("counts the measured time as work, and not the commit before it", () => {
    const { rows, worked } = draw([done("a", 10, 100, { tookMs: 60 })]);
    expect(rows[0]).toMatchObject({ worked: 60, segments: [{ from: 40, to: 100 }] });
    expect(worked).toBe(60);
  });
});

describe("any log", () => {
  it("yields segments within the whole, in order and without overlap", () => {
    const wrong: string[] = [];
    for (let seed = 1; seed <= 500; seed += 1) {
      const moment = randomMoment(seed);
      const found = timeline(moment);
      const { worked, waited, whole } = found;
      const check = (holds: boolean, what: string) => {
        if (!holds) {
          wrong.push(`seed ${seed}: ${what}`);
        }
      };
      check(worked >= 0 && waited >= 0 && worked + waited === whole, `${worked} + ${waited} is not ${whole}`);
      for (const row of found.rows) {
        let end = 0;
        for (const segment of row.segments) {
          check(segment.from >= end && segment.to >= segment.from, `${row.step}: ${JSON.stringify(row.segments)}`);
          end = segment.to;
        }
        check(end <= whole, `${row.step} ends after the whole`);
        check(row.worked <= worked, `${row.step} worked longer than all together`);
      }
    }
    expect(wrong.slice(0, 3)).toEqual([]);
  });
});

it("positions keep their order on both scales, from end to end", () => {
  for (const logarithmic of [false, true]) {
    expect(position(0, 500, logarithmic)).toBe(0);
    expect(position(500, 500, logarithmic)).toBeCloseTo(1);
    for (let instant = 0; instant < 500; instant += 10) {
      expect(position(instant, 500, logarithmic)).toBeLessThan(position(instant + 10, 500, logarithmic));
    }
  }
  expect(position(5, 500, true)).toBeGreaterThan(0.3);
});
