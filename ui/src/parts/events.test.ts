import { expect, test } from "vitest";

import { effects } from "./events";

test("the effect of an event names waiting steps, triggers and the time for which it is kept", () => {
  expect(effects({ delivered: 0, kept: false, starts: [] })).toBe("No step waited for it; it starts nothing; it is not kept.");
  expect(effects({ delivered: 1, kept: true, starts: ["ship"] })).toBe(
    "1 waiting step got it; it starts 1 trigger; it is kept for 7 days for steps that wait later.",
  );
  expect(effects({ delivered: 1200, kept: false, starts: ["ship", "book/paid"] })).toBe("1,200 waiting steps got it; it starts 2 triggers; it is not kept.");
});
