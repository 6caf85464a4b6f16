import { expect, test } from "vitest";

import type { AutomationDetail } from "../api/types";
import type { Json } from "../forms/trigger";
import { asTrigger, automationOf, executionsOf, hasOwnEvent, listedAs, onTrigger, placeIn, triggerOf, withOnly } from "./several";

const trigger = (id: string, kind: string, more = {}) => ({ id, name: `orders/${id}`, kind, enabled: true, nextFires: [], ...more });
const several = {
  id: "orders",
  trigger: "webhook",
  liveUrl: "first",
  enabled: true,
  nextFires: ["at"],
  triggers: [trigger("paid", "webhook", { liveUrl: "first" }), trigger("nightly", "schedule", { nextFires: ["at"], words: "daily" })],
} as unknown as AutomationDetail;

test("a trigger of several is shown as the only one, under its own name", () => {
  const nightly = asTrigger(several, "nightly");
  expect(nightly).toMatchObject({ id: "orders/nightly", trigger: "schedule", triggerWords: "daily", nextFires: ["at"] });
  expect(nightly).not.toHaveProperty("liveUrl");
  expect(asTrigger(several, "paid")).toMatchObject({ id: "orders/paid", liveUrl: "first" });
  const alone = { ...several, triggers: several.triggers.slice(0, 1) };
  expect(asTrigger(alone, "paid")).toBe(alone);
});

test("a name gives its automation and its filter", () => {
  expect([automationOf("orders"), automationOf("orders/paid")]).toEqual(["orders", "orders"]);
  expect([executionsOf("orders"), executionsOf("orders/paid")]).toEqual([{ automation: "orders" }, { automation: "orders", trigger: "paid" }]);
  expect([triggerOf("orders"), triggerOf("orders/paid")]).toEqual(["", "&trigger=paid"]);
  expect([listedAs("orders/main"), listedAs("orders/paid"), listedAs("orders")]).toEqual(["orders", "orders/paid", "orders"]);
});

test("a form of one trigger writes at its place in the list", () => {
  const data: Json = { name: "x", triggers: [{ id: "paid", webhook: {} }, { id: "nightly", schedule: { every: "5m" } }] };
  expect(placeIn(data, several, "nightly")).toBe(1);
  expect(placeIn(data, several, "gone")).toBeUndefined();
  const renamed: Json = { triggers: [{ id: "paid", webhook: {} }, { id: "daily", schedule: {} }] };
  expect(placeIn(renamed, several, "nightly")).toBe(1);
  expect(placeIn({ trigger: {} }, several, "nightly")).toBeUndefined();
  expect(withOnly(data, 1)).toMatchObject({ name: "x", trigger: { schedule: { every: "5m" } } });
  expect(
    onTrigger([{ op: "set", at: ["trigger", "schedule", "every"], value: "1m" }, { op: "remove", at: ["concurrency"] }], 1),
  ).toEqual([
    { op: "set", at: ["triggers", 1, "schedule", "every"], value: "1m" },
    { op: "remove", at: ["concurrency"] },
  ]);
});

test("an own event belongs to the trigger that an automation is shown as", () => {
  const automation = { id: "a", triggers: [{ id: "main", kind: "event", isOwnEvent: true }] } as unknown as AutomationDetail;
  expect(hasOwnEvent(automation)).toBe(true);
  const two = [{ id: "push", kind: "event" }, { id: "paid", kind: "event", isOwnEvent: true }];
  expect(["a/push", "a/paid"].map((id) => hasOwnEvent({ id, triggers: two } as unknown as AutomationDetail))).toEqual([false, true]);
});
