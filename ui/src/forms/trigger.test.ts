import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import type { Schema } from "./fields";
import { chooseEvent, CONFIGURE, isOwnEvent, type Json, jsonRemark, keptAndLost, limits, read, secretOf, times, valueAt, VERIFY, withOptions, withTimes, write } from "./trigger";

/** The schema of automations that the daemon generates from its own tables. */
const schema = JSON.parse(readFileSync(new URL("../../../schemas/automation.schema.json", import.meta.url), "utf8")) as Schema;

const data = { trigger: { if: "x", webhook: { mode: "sync", respond: { status: 201 } } }, concurrency: { limit: 2 } };

test("clearing a field removes the mapping it leaves empty, but never the trigger", () => {
  expect(write(data, ["trigger", "webhook", "respond", "status"], undefined)).toEqual([
    { op: "remove", at: ["trigger", "webhook", "respond"] },
  ]);
  expect(write(data, ["concurrency", "limit"], undefined)).toEqual([{ op: "remove", at: ["concurrency"] }]);
  expect(write({ trigger: { webhook: { mode: "sync" } } }, ["trigger", "webhook", "mode"], undefined)).toEqual([
    { op: "remove", at: ["trigger", "webhook", "mode"] },
  ]);
  expect(write(data, ["trigger", "if"], undefined)).toEqual([{ op: "remove", at: ["trigger", "if"] }]);
  expect(write(data, ["trigger", "webhook", "timeout"], undefined)).toEqual([]);
  expect(write(data, ["trigger", "webhook", "timeout"], "5s")).toEqual([
    { op: "set", at: ["trigger", "webhook", "timeout"], value: "5s" },
  ]);
});

test("an invalid value of a field is an explained error", () => {
  const field = { at: [], label: "", kind: "number" as const };
  expect(read(field, "7")).toBe(7);
  expect(read(field, "${{ inputs.n }}")).toBe("${{ inputs.n }}");
  expect(read(field, " ")).toBeUndefined();
  expect(() => read(field, "x")).toThrow("not a number");
  expect(() => read({ ...field, kind: "json" }, "{")).toThrow();
});

test("changing the times of a schedule keeps its time zone and rules", () => {
  const schedule = { daily: { at: "08:30" }, timezone: "Europe/Berlin", overlap: "queue" };
  const form = times(schedule);
  expect(form).toMatchObject({ type: "daily", at: "08:30" });
  expect(withTimes(schedule, { ...form, type: "weekly", on: ["mon", "fri"] })).toEqual({
    weekly: { on: ["mon", "fri"], at: "08:30" },
    timezone: "Europe/Berlin",
    overlap: "queue",
  });
});

test("a change of the trigger names what it keeps and what it loses", () => {
  expect(keptAndLost(data.trigger, { if: "x", schedule: { every: "5m" } })).toEqual({
    kept: ["if"],
    lost: ["webhook.mode", "webhook.respond"],
  });
  expect(keptAndLost(data.trigger, { webhook: { mode: "sync" } })).toEqual({
    kept: ["webhook.mode"],
    lost: ["if", "webhook.respond"],
  });
});

test("an event is an own one unless a connector has the first part of its name", () => {
  const isOwn = (trigger: Json) => isOwnEvent(trigger, ["wiki", "state"]);
  expect(isOwn({ event: "order.paid" })).toBe(true);
  expect(isOwn({ event: "paid", data: { order: "text" } })).toBe(true);
  expect(isOwn({ event: "wiki" })).toBe(true);
  expect(isOwn({ event: "wiki.pageChanged" })).toBe(false);
  expect(isOwn({ event: "state.changed" })).toBe(false);
  expect(isOwn({ event: "jira.created", connection: "jira" })).toBe(false);
  expect(isOwn({ manual: {} })).toBe(false);
});

test("the choice of another event removes the keys of the other kind of event", () => {
  expect(chooseEvent({ event: "wiki.pageChanged", connection: "w", every: "5m", if: "x" }, "order.paid", true)).toEqual([
    { op: "remove", at: ["trigger", "connection"] },
    { op: "remove", at: ["trigger", "every"] },
    { op: "set", at: ["trigger", "event"], value: "order.paid" },
  ]);
  expect(chooseEvent({ event: "order.paid", data: { order: "text" } }, "github.push", false)).toEqual([
    { op: "remove", at: ["trigger", "data"] },
    { op: "set", at: ["trigger", "event"], value: "github.push" },
  ]);
});

test("names of Object.prototype are not values", () => {
  expect(valueAt({}, ["constructor"])).toBeUndefined();
});

test("a text declared as JSON has a note, and invalid JSON an error", () => {
  expect(jsonRemark('{"a": [1]}')).toEqual({ isValid: true, words: "valid JSON" });
  expect(jsonRemark('{"a": x}')).toMatchObject({ isValid: false, words: expect.stringContaining("not JSON: Unexpected token 'x'") });
  expect(jsonRemark("")).toBeUndefined();
  expect(jsonRemark("Thank you", true)).toBeUndefined();
  expect(jsonRemark("${{ payload }}", true)).toBeUndefined();
  expect(jsonRemark('{"id": "${{ executionId }}", "n": ${{ 1 + 1 }}}', true)?.isValid).toBe(true);
  expect(jsonRemark("{accepted}", true)?.isValid).toBe(false);
});

test("a secret name is read only from a text that is only its expression", () => {
  expect(secretOf("${{ secrets.githubHook }}")).toBe("githubHook");
  expect(secretOf("${{secrets.a_1}}")).toBe("a_1");
  expect(secretOf("x ${{ secrets.a }}")).toBeUndefined();
  expect(secretOf("${{ secrets.a | upper }}")).toBeUndefined();
});

test("a form offers and explains exactly the values of the schema", () => {
  const verify = valueAt(schema as Json, ["properties", "trigger", "properties", "webhook", "anyOf", "0", "properties", "verify", "anyOf", "1", "properties"]);
  const presets = valueAt(verify, ["preset", "enum"]) as string[];
  expect(presets).toContain("github");
  const offered = withOptions(VERIFY, schema).find((field) => field.label === "Preset")?.options;
  expect(offered?.map(([value]) => value)).toEqual(presets);

  const all = [...Object.values(CONFIGURE).flat(), ...VERIFY, ...limits("webhook")];
  for (const field of withOptions(all, schema).filter((field) => ["choice", "radio", "flags"].includes(field.kind))) {
    const values = field.options?.map(([value]) => value) ?? [];
    expect(values, field.label).not.toEqual([]);
    expect(values, field.label).toEqual(expect.arrayContaining(Object.keys(field.words ?? {})));
  }
});
