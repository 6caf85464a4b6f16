import { expect, test } from "vitest";

import type { Automation, AutomationStatistics } from "../api/types";
import { filtered, missingInWords, percent, shownState, successRate, triggerInWords } from "./automations";

const automation = (id: string, more: Partial<Automation> = {}): Automation => ({
  id,
  name: id,
  labels: [],
  enabled: true,
  state: "active",
  trigger: "webhook",
  triggers: [],
  path: `automations/${id}.yaml`,
  definition: "d",
  nextFires: [],
  refused: {},
  errors: 0,
  warnings: 0,
  ...more,
});
const trigger = (id: string, kind: Automation["trigger"]): Automation["triggers"][number] => ({ id, name: `a/${id}`, kind, words: "", enabled: true, nextFires: [], keysUsed: [] });
const none = { text: "", state: "", trigger: "", label: "" };

test("a row must match every part of the filter", () => {
  const list = [
    automation("orders", { labels: ["shop"], description: "Takes orders" }),
    automation("beat", { trigger: "schedule", state: "stale" }),
    automation("off", { enabled: false, labels: ["shop"] }),
  ];
  const ids = (filter: Partial<typeof none>) => filtered(list, { ...none, ...filter }).map(({ id }) => id);
  expect(ids({})).toEqual(["orders", "beat", "off"]);
  expect(ids({ text: "TAKES" })).toEqual(["orders"]);
  expect(ids({ label: "shop" })).toEqual(["orders", "off"]);
  expect(ids({ label: "shop", state: "disabled" })).toEqual(["off"]);
  expect(ids({ trigger: "schedule", state: "active" })).toEqual([]);
});

test("a trigger is described in words", () => {
  expect(triggerInWords(automation("a", { triggerWords: "sync" }))).toBe("webhook · sync");
  expect(triggerInWords(automation("a", { trigger: "schedule", triggerWords: "every minute" }))).toBe("every minute");
  expect(triggerInWords(automation("a", { trigger: "manual" }))).toBe("manual");
  const several = [trigger("nightly", "schedule"), trigger("changed", "webhook"), trigger("paid", "webhook")];
  const one = automation("a", { trigger: "schedule", triggerWords: "every minute", triggers: several });
  expect(triggerInWords(one)).toBe("3 triggers: schedule, webhook");
  expect(filtered([one], { ...none, trigger: "webhook" })).toEqual([one]);
  expect(filtered([one], { ...none, trigger: "poll" })).toEqual([]);
});

test("a rate below one is never shown as 100 %", () => {
  const found = (succeeded: number, failed: number) => ({ succeeded, failed, stuck: 0 }) as AutomationStatistics;
  expect(percent(successRate(found(9999, 1)))).toBe("99.9 %");
  expect(percent(successRate(found(2, 0)))).toBe("100 %");
  expect(percent(successRate(found(0, 3)))).toBe("0 %");
  expect(percent(successRate(found(0, 0)))).toBe("–");
  expect(percent(undefined)).toBe("–");
});

test("an automation whose trigger lacks a secret is not active, one whose steps lack it is", () => {
  const one = (blocksStart: boolean, enabled = true) => ({ enabled, state: "active" as const, missingSecrets: [{ name: "key", blocksStart }] });
  expect([one(true), one(false), one(true, false)].map(shownState)).toEqual(["needsSecret", "active", "disabled"]);
  expect(missingInWords(one(true))).toEqual(["needs key"]);
});
