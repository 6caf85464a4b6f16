import { expect, test } from "vitest";

import { keptAndLost, read, times, valueAt, withTimes, write } from "./trigger";

const data = { trigger: { if: "x", webhook: { mode: "sync", respond: { status: 201 } } }, concurrency: { limit: 2 } };

test("a field that is emptied takes a mapping with it that would be empty, and never the trigger", () => {
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

test("a text that is no value of its field is an error in words", () => {
  const field = { at: [], label: "", kind: "number" as const };
  expect(read(field, "7")).toBe(7);
  expect(read(field, " ")).toBeUndefined();
  expect(() => read(field, "x")).toThrow("not a number");
  expect(() => read({ ...field, kind: "json" }, "{")).toThrow();
});

test("other times of a schedule keep its zone and its rules", () => {
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

test("names that every object has are no values", () => {
  expect(valueAt({}, ["constructor"])).toBeUndefined();
});
