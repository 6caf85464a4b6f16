import { describe, expect, it } from "vitest";

import type { StepView } from "../api/types";
import { bars } from "./segments";

const at = (ms: number) => new Date(1_800_000_000_000 + ms).toISOString();
const step = (id: string, from: number, to: number | undefined, status: StepView["status"] = "succeeded"): StepView => ({
  step: id,
  status,
  attempts: 1,
  startedAt: at(from),
  tookMs: 5,
  ...(to === undefined ? {} : { finishedAt: at(to) }),
});

describe("bars", () => {
  it("stand in the order of beginning, within the whole", () => {
    const found = bars([step("b", 50, 100), step("a", 0, 50)], at(0), at(100), 0);
    expect(found.map(({ step: id, from, length }) => [id, from, length])).toEqual([
      ["a", 0, 0.5],
      ["b", 0.5, 0.5],
    ]);
  });

  it("fold the turns of a loop, and show the worst of them", () => {
    const found = bars([step("a[0]", 0, 20), step("a[1]", 20, 40, "failed"), step("a[2]", 40, 60)], at(0), at(100), 0);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatchObject({ step: "a", turns: 3, status: "failed", from: 0, length: 0.6, tookMs: 15 });
  });

  it("go on until now while a step runs, and never leave the scale", () => {
    const found = bars([step("a", 20, undefined, "running")], at(0), undefined, 1_800_000_000_100);
    expect(found[0]).toMatchObject({ from: 0.2, length: 0.8 });
    for (const { from, length } of bars([step("a", -50, 900)], at(0), at(100), 0)) {
      expect(from).toBeGreaterThanOrEqual(0);
      expect(from + length).toBeLessThanOrEqual(1);
    }
  });
});
