import { describe, expect, it } from "vitest";

import { duration, exactly, short, size, when } from "./format";

describe("durations", () => {
  it("have at most two figures and a suitable unit", () => {
    const cases: [number | undefined, string][] = [
      [undefined, "–"],
      [0, "< 1 ms"],
      [0.148, "148 µs"],
      [2.994, "3.0 ms"],
      [41, "41 ms"],
      [999.4, "999 ms"],
      [6400, "6.4 s"],
      [59_000, "59 s"],
      [61_000, "1 min 1 s"],
      [3_600_000, "1 h"],
      [172_740_000, "1 d 23 h"],
    ];
    for (const [ms, text] of cases) {
      expect(duration(ms)).toBe(text);
    }
  });
});

describe("times", () => {
  const now = Date.parse("2026-03-02T12:00:00Z");
  it("are relative below an hour", () => {
    expect(when("2026-03-02T11:59:58Z", now)).toBe("now");
    expect(when("2026-03-02T11:59:20Z", now)).toBe("40 s ago");
    expect(when("2026-03-02T12:10:15Z", now)).toBe("in 10 min");
    expect(when("2026-03-02T10:00:00Z", now)).not.toContain("ago");
  });
});

it("sizes have a suitable unit, and short ids keep both ends", () => {
  expect([0, 999, 1500, 394_000, 5_000_000].map(size)).toEqual(["0 B", "999 B", "1.5 KB", "394 KB", "5.0 MB"]);
  expect(short("01a20ce5-4d18-7000-af5d-adc82f3b3f26")).toBe("01a20ce5…3f26");
  expect(short("abc")).toBe("abc");
});

describe("exact instants", () => {
  it("have the local time with its UTC offset, and the instant as sent", () => {
    const found = exactly("2026-11-22T21:23:58.123456Z");
    expect(found.utc).toBe("2026-11-22T21:23:58.123456Z");
    expect(found.local).toMatch(/2026.*:58.*(GMT|UTC)/);
  });
});
