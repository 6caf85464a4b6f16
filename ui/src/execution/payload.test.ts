import { expect, test } from "vitest";

import type { Execution, FileValue } from "../api/types";
import { bodyData } from "../value/body";
import { expression } from "../value/reference";
import { partsOf } from "./payload";

type Payload = Execution["payload"];

/** The expressions of all leaves that have one, as a click copies them. */
function copied(payload: unknown): string[] {
  const leaves = (root: string, value: unknown, path: (string | number)[] = []): string[] =>
    typeof value === "object" && value !== null
      ? Object.entries(value).flatMap(([name, item]) => leaves(root, item, [...path, Array.isArray(value) ? Number(name) : name]))
      : [expression(root, path)];
  return partsOf(payload as Payload).flatMap(({ root, value, data }) => {
    const body = data === undefined ? undefined : bodyData(value as FileValue);
    return [...(root === undefined ? [] : leaves(root, value)), ...(data === undefined ? [] : body ? leaves(data, body.value) : [data])];
  });
}
const file = (data: string, contentType: string) => ({ data, contentType, encoding: "utf8", size: data.length });
const request = (body: unknown, more: object = {}) => ({
  kind: "webhook",
  method: "POST",
  pathFragment: "",
  queryParameters: { page: "1" },
  headers: { "content-type": "x" },
  body,
  ...more,
});
const OF_REQUEST = [
  "trigger.results.method",
  "trigger.results.pathFragment",
  "trigger.results.queryParameters.page",
  "trigger.results.headers['content-type']",
];

test("each expression of a request exists in trigger.results", () => {
  const json = file('{"rows": [{"id": 7}]}', "application/json");
  expect(copied(request(json))).toEqual([...OF_REQUEST, "trigger.results.body.data.rows[0].id"]);
  const form = file("a=1&a=2&b=3", "application/x-www-form-urlencoded");
  expect(copied(request(form)).slice(4)).toEqual(["trigger.results.body.data.a[0]", "trigger.results.body.data.a[1]", "trigger.results.body.data.b"]);
});

test("a body that steps read as text or as a file has no members", () => {
  for (const type of ["text/plain", "application/xml", "application/octet-stream", "multipart/form-data; boundary=x"]) {
    expect(copied(request(file('{"rows": 1}', type))).slice(4), type).toEqual(["trigger.results.body.data"]);
  }
  expect(copied(request(file("1", ""))).slice(4), "a body without a type is JSON if it is a list or an object").toEqual(["trigger.results.body.data"]);
  expect(copied(request(file('{"rows": 1}', ""))).slice(4)).toEqual(["trigger.results.body.data.rows"]);
});

test("steps read the results of trigger code and not the request", () => {
  const decided = { results: { order: { id: 7 } } };
  expect(copied(request(file("{}", "application/json"), { decided }))).toEqual(["trigger.results.order.id"]);
});

test("other kinds of starts offer the expressions of their results", () => {
  expect(copied({ kind: "poll", data: { id: 7 }, polledAt: "x" })).toEqual(["trigger.results.body.data.id", "trigger.results.polledAt"]);
  expect(copied({ kind: "manual", inputs: { space: "1" } })).toEqual(["trigger.results.inputs.space"]);
  expect(copied({ kind: "schedule", scheduledAt: "a", startedAt: "b", timezone: "c" })).toEqual([
    "trigger.results.scheduledAt",
    "trigger.results.startedAt",
    "trigger.results.timezone",
  ]);
});
