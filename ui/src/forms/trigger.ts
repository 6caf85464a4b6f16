/** The fields of a trigger, by kind, with their places in the file. The daemon checks the values; a field only writes them. */

import type { Input, Operation, Path } from "../api/types";
import { valueAt as anyAt } from "../editor/outline";
import { asInteger, number, parse, plainText } from "../value/exact";
import { choices, type Schema } from "./fields";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface Field {
  at: Path;
  label: string;
  kind: "text" | "area" | "number" | "choice" | "radio" | "flags" | "list" | "map" | "json" | "declared" | "secret";
  /** The values of a choice or of flags, each with its name: by default those of the schema. Of a text or a number, they are proposals. */
  options?: [string, string][];
  /** Explanations of values of the schema. */
  words?: Record<string, string>;
  /** The value in force while nothing is written. */
  standard?: string;
  help?: string;
  /** True if the field is behind *Advanced*. */
  advanced?: boolean;
  /** True if the field is below the fields that restrict callers. */
  isLast?: boolean;
}

const STATUSES: [string, string][] = [
  ["200", "OK"],
  ["201", "Created"],
  ["202", "Accepted"],
  ["204", "No Content"],
];
const TYPES: [string, string][] = ["application/json", "text/plain", "text/html", "application/xml"].map((name) => [name, ""]);
const hook = (...path: Path): Path => ["trigger", "webhook", ...path];

const WEBHOOK: Field[] = [
  {
    at: hook("mode"),
    label: "Response",
    kind: "radio",
    words: { async: "asynchronous: the caller gets an answer at once", sync: "synchronous: the caller waits for the result" },
    standard: "async",
  },
  { at: hook("timeout"), label: "Wait", kind: "text", standard: "30s", help: "How long the caller of a synchronous webhook waits, 1s to 15m; then it gets 504." },
  { at: hook("respond", "status"), label: "Status", kind: "number", options: STATUSES, standard: "200" },
  { at: hook("respond", "contentType"), label: "Type", kind: "text", options: TYPES, standard: "text/plain" },
  { at: hook("respond", "headers"), label: "Headers", kind: "map" },
  { at: hook("respond", "body"), label: "Body", kind: "area", help: "Empty: the execution's id as JSON." },
  { at: hook("methods"), label: "Methods", kind: "flags", standard: "all five", isLast: true },
  { at: hook("maxBody"), label: "Largest body", kind: "text", standard: "6MiB", isLast: true },
  { at: hook("code"), label: "Code block", kind: "area", help: "A module that decides payload and response.", advanced: true },
  { at: hook("challenge"), label: "Challenge", kind: "json", help: "How to answer the sender's check of the address.", advanced: true },
];

export const VERIFY: Field[] = [
  { at: hook("verify", "preset"), label: "Preset", kind: "choice", standard: "hmac" },
  { at: hook("verify", "secret"), label: "Secret", kind: "secret" },
  { at: hook("verify", "keys"), label: "Several keys", kind: "json", help: "For the rotation of a secret, at most four.", advanced: true },
  { at: hook("verify", "header"), label: "Header", kind: "text", advanced: true },
  { at: hook("verify", "algorithm"), label: "Algorithm", kind: "choice", advanced: true },
  { at: hook("verify", "prefix"), label: "Prefix", kind: "text", advanced: true },
  { at: hook("verify", "encoding"), label: "Encoding", kind: "choice", advanced: true },
  { at: hook("verify", "timestamp", "tolerance"), label: "Tolerance", kind: "text", standard: "5m", advanced: true },
];

const POLL_COMMON = (at: (...path: Path) => Path): Field[] => [
  { at: at("every"), label: "Every", kind: "text", help: "At least 1s, such as 5m." },
  {
    at: at("start"),
    label: "First poll",
    kind: "choice",
    words: { new: "records what exists, and starts nothing", all: "starts executions for what exists" },
    standard: "new",
  },
  {
    at: at("deliver"),
    label: "Deliver",
    kind: "choice",
    words: { batch: "the new records of a poll as a list", each: "each new record to an execution of its own" },
    standard: "batch",
  },
];

const poll = (...path: Path): Path => ["trigger", "poll", ...path];
const POLL: Field[] = [
  { at: poll("action"), label: "Action", kind: "text", help: "connector.action" },
  { at: poll("connection"), label: "Connection", kind: "text" },
  { at: poll("with"), label: "Inputs", kind: "json" },
  ...POLL_COMMON(poll),
  { at: poll("items"), label: "Items", kind: "text", help: "The list of items, read from `result`.", advanced: true },
  { at: poll("id"), label: "Id", kind: "text", help: "What identifies an item, read from `item`.", advanced: true },
  { at: poll("cursor"), label: "Cursor", kind: "text", help: "What the next poll reads as `cursor`, from `result`.", advanced: true },
];

/** The fields of an event that is polled for. */
const EVENT: Field[] = POLL_COMMON((...path) => ["trigger", ...path]).map((field) => ({ ...field, advanced: true }));

/** The fields of an own event. */
export const OWN_EVENT: Field[] = [
  { at: ["trigger", "event"], label: "Name", kind: "text", help: "As events.emit sends it, such as order.paid. Its first part is the name of no connector." },
  {
    at: ["trigger", "data"],
    label: "Data",
    kind: "declared",
    help: "The fields that the automation reads. Without any, it takes any data.",
  },
];

/** The keys of a trigger that belong to an event of a connector. */
const OF_CONNECTOR = ["connection", "with", "every", "start", "deliver"];

/** True if the event of a trigger is an own one: its name does not begin with that of a connector. */
export function isOwnEvent(trigger: Json | undefined, connectors: readonly string[]): boolean {
  const name = valueAt(trigger, ["event"]);
  if (typeof name !== "string" || OF_CONNECTOR.some((key) => valueAt(trigger, [key]) !== undefined)) {
    return false;
  }
  const [owner = "", ...rest] = name.split(".");
  return rest.length === 0 || !connectors.includes(owner);
}

/** The operations that give a trigger another event, without the keys of the other kind of event. */
export function chooseEvent(trigger: Json | undefined, event: string, isOwn: boolean): Operation[] {
  const others = isOwn ? OF_CONNECTOR : ["data"];
  const gone = others.filter((key) => valueAt(trigger, [key]) !== undefined);
  return [
    ...gone.map((key): Operation => ({ op: "remove", at: ["trigger", key] })),
    { op: "set", at: ["trigger", "event"], value: event },
  ];
}

const SCHEDULE: Field[] = [
  { at: ["trigger", "schedule", "timezone"], label: "Time zone", kind: "text", standard: "UTC", help: "Such as Europe/Berlin." },
  {
    at: ["trigger", "schedule", "misfire"],
    label: "Instants missed while no daemon ran",
    kind: "choice",
    words: { latest: "the latest one runs", skip: "none runs", all: "all run, at most 100" },
    standard: "latest",
  },
  {
    at: ["trigger", "schedule", "overlap"],
    label: "If the last execution still runs",
    kind: "choice",
    words: { skip: "the instant is skipped", allow: "both run", queue: "it runs afterwards" },
    standard: "skip",
  },
];

const MANUAL: Field[] = [
  { at: ["inputs"], label: "Inputs", kind: "declared", help: "What a start by hand or by a call gives." },
];

/** The id of one of several triggers. */
export const ID: Field[] = [
  { at: ["trigger", "id"], label: "Id", kind: "text", help: "Saving it with another id offers to keep its address and its position." },
];

/** The fields of the tab *Configure*, without those of a schedule's times, of an event and of `verify`. */
export const CONFIGURE: Record<string, Field[]> = { webhook: WEBHOOK, schedule: SCHEDULE, poll: POLL, event: EVENT, manual: MANUAL };

/** The fields of the tab *Limits*. */
export function limits(kind: string): Field[] {
  const common: Field[] = [
    { at: ["trigger", "if"], label: "Only if", kind: "text", help: "A condition: where it is false, no execution starts." },
    { at: ["concurrency", "limit"], label: "Executions at the same time", kind: "number", standard: "any number" },
    { at: ["concurrency", "key"], label: "Counted separately for each", kind: "text", help: "${{ trigger.results.body.data.customer }}" },
    {
      at: ["concurrency", "policy"],
      label: "Over that limit",
      kind: "choice",
      words: { queue: "waits", skip: "ends as cancelled", cancelRunning: "replaces the oldest one" },
      standard: "queue",
    },
  ];
  if (kind !== "webhook") {
    return common;
  }
  return [
    ...common,
    { at: hook("rateLimit", "max"), label: "Requests in a period", kind: "number", standard: "no limit" },
    { at: hook("rateLimit", "per"), label: "Period", kind: "text", standard: "1s" },
    { at: hook("rateLimit", "burst"), label: "Requests at once after a quiet period", kind: "number", standard: "as many" },
    { at: hook("dedup", "by"), label: "Repeated deliveries have the same", kind: "json", help: '"id", "mac", {"header": "x-id"} or {"json": "/id"}' },
    { at: hook("dedup", "window"), label: "Deliveries are remembered for", kind: "text", standard: "7d" },
    { at: hook("schema"), label: "Schema of the body", kind: "json", help: "JSON Schema, draft 2020-12." },
  ];
}

/** The fields with the values that the schema of automations allows, where they have no options of their own. */
export const withOptions = (fields: readonly Field[], schema: Schema): Field[] =>
  fields.map((field) =>
    field.options === undefined && ["choice", "radio", "flags"].includes(field.kind)
      ? { ...field, options: choices(schema, field.at).map((value) => [value, field.words?.[value] ?? value]) }
      : field,
  );

/** The fields of the inputs of an event. */
export const eventInputs = (inputs: readonly Input[]): Field[] =>
  inputs.map((input) => {
    const at = ["trigger", "with", input.name];
    const label = input.required ? `${input.name} *` : input.name;
    const common = { at, label, ...(input.description === undefined ? {} : { help: input.description }) };
    switch (input.type.kind) {
      case "integer":
      case "number":
        return { ...common, kind: "number" };
      case "choice":
        return { ...common, kind: "choice", options: input.type.options.map((option) => [option, option]) };
      case "text":
      case "url":
        return { ...common, kind: "text" };
      case "list":
        return input.type.items.kind === "choice"
          ? { ...common, kind: "flags", options: input.type.items.options.map((option) => [option, option]) }
          : input.type.items.kind === "text"
            ? { ...common, kind: "list" }
            : { ...common, kind: "json" };
      default:
        return { ...common, kind: "json" };
    }
  });

/** The name of the secret that a text names alone, `${{ secrets.NAME }}`; `undefined` if it is another text. */
export const secretOf = (text: string): string | undefined => /^\$\{\{\s*secrets\.([A-Za-z_]\w*)\s*\}\}$/.exec(text.trim())?.[1];

/**
 * A remark on a text that is to be JSON: if it is, or why it is not. None for an empty text, and for one that is not to be:
 * with `guess`, only a text that begins like an object or a list is to be JSON.
 */
export function jsonRemark(text: string, guess = false): { isValid: boolean; words: string } | undefined {
  const trimmed = text.trim();
  if (trimmed === "" || (guess && (!/^[[{]/.test(trimmed) || trimmed.startsWith("${{")))) {
    return undefined;
  }
  try {
    // The value of an expression is not known here.
    JSON.parse(guess ? text.replace(/\$\{\{[^}]*\}\}/g, "0") : text);
    return { isValid: true, words: "valid JSON" };
  } catch (error) {
    return { isValid: false, words: `not JSON: ${(error as Error).message}` };
  }
}

/** Keys that count only for the constant answer of an asynchronous webhook. */
export const isAnswer = (field: Field): boolean => field.at[2] === "respond";

/** The value at a path; `undefined` if it is missing. */
export const valueAt = (data: Json | undefined, at: Path): Json | undefined => anyAt(data, at) as Json | undefined;

/** A value as the text of its field. */
export function shown(field: Field, value: Json | undefined): string {
  if (value === undefined || value === null) {
    return "";
  }
  if (field.kind === "list" && Array.isArray(value)) {
    return value.map(plainText).join(", ");
  }
  return field.kind === "json" ? JSON.stringify(value, null, 2) : typeof value === "string" ? value : JSON.stringify(value);
}

/** The value of the text of a field. Throws an error with a message if the text is invalid. */
export function read(field: Field, text: string): Json | undefined {
  if (text.trim() === "") {
    return undefined;
  }
  if (field.kind === "number" && !text.includes("${{")) {
    const found = number(text);
    if (found === undefined) {
      throw new Error("not a number");
    }
    return found as Json;
  }
  if (field.kind === "json") {
    return parse(text) as Json;
  }
  if (field.kind === "list" && !text.includes("${{")) {
    const words = text.split(",").map((word) => word.trim());
    return words.filter((word) => word !== "");
  }
  return text;
}

/** The operations that write a value. The last key of a mapping takes the mapping with it, which would be empty. */
export function write(data: Json, at: Path, value: Json | undefined): Operation[] {
  if (value !== undefined) {
    return [{ op: "set", at, value }];
  }
  if (valueAt(data, at) === undefined) {
    return [];
  }
  let gone = at;
  // A trigger keeps its kind, and the file its trigger.
  while (gone.length > 2 || (gone.length === 2 && gone[0] !== "trigger")) {
    const parent = valueAt(data, gone.slice(0, -1));
    if (typeof parent !== "object" || parent === null || Object.keys(parent).length > 1 || gone.length <= 1) {
      break;
    }
    if (gone.length === 3 && gone[0] === "trigger") {
      break;
    }
    gone = gone.slice(0, -1);
  }
  return [{ op: "remove", at: gone }];
}

export interface Times {
  type: "minute" | "hourly" | "daily" | "weekly" | "custom";
  every: string;
  minute: number;
  at: string;
  on: string[];
  cron: string;
}

/** The keys of a schedule that say when it fires. Exactly one of them is written. */
const TIME_KEYS = ["every", "hourly", "daily", "weekly", "cron"];

/** The times of a schedule as the form has them. */
export function times(schedule: Json | undefined): Times {
  const at = (path: Path) => valueAt(schedule, path);
  const on = at(["weekly", "on"]);
  return {
    type:
      at(["cron"]) !== undefined
        ? "custom"
        : at(["weekly"]) !== undefined
          ? "weekly"
          : at(["daily"]) !== undefined
            ? "daily"
            : at(["hourly"]) !== undefined
              ? "hourly"
              : "minute",
    every: String(at(["every"]) ?? "5m"),
    minute: Number(at(["hourly", "minute"]) ?? 0),
    at: String(at(["weekly", "at"]) ?? at(["daily", "at"]) ?? "08:30"),
    on: Array.isArray(on) ? on.map(String) : on === undefined ? ["mon"] : [String(on)],
    cron: String(at(["cron"]) ?? "*/5 8-16 * * 1-5"),
  };
}

/** The key and the value of a schedule with these times. */
export function timeKey(form: Times): [string, Json] {
  switch (form.type) {
    case "minute":
      return ["every", form.every];
    case "hourly":
      return ["hourly", { minute: form.minute }];
    case "daily":
      return ["daily", { at: form.at }];
    case "weekly":
      return ["weekly", { on: form.on, at: form.at }];
    case "custom":
      return ["cron", form.cron];
  }
}

/** The schedule with these times; its other keys stay. */
export function withTimes(schedule: Json | undefined, form: Times): Json {
  const [key, value] = timeKey(form);
  const others = Object.entries((schedule ?? {}) as Record<string, Json>).filter(([name]) => !TIME_KEYS.includes(name));
  return Object.fromEntries([[key, value], ...others]) as Json;
}

/** The keys of a mapping, with those inside it: `webhook.respond.status`. */
export function keys(value: Json | undefined, before = ""): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value) || asInteger(value) !== undefined) {
    return [];
  }
  return Object.entries(value).map(([name]) => before + name);
}

/** The keys that a change of the trigger keeps and loses. `next` is the new value of `trigger`. */
export function keptAndLost(trigger: Json | undefined, next: Json): { kept: string[]; lost: string[] } {
  const kind = (of: Json | undefined) => keys(of).find((name) => ["webhook", "schedule", "event", "poll", "manual"].includes(name)) ?? "";
  const [before, after] = [kind(trigger), kind(next)];
  const has = new Set(keys(next));
  const own = keys(trigger).filter((name) => name !== before);
  const inner = keys(valueAt(trigger, [before]), `${before}.`);
  const stays = before === after ? new Set(keys(valueAt(next, [after]), `${after}.`)) : new Set<string>();
  const all = [...own.filter((name) => !has.has(name)), ...inner.filter((name) => !stays.has(name))];
  return {
    kept: [...own.filter((name) => has.has(name)), ...inner.filter((name) => stays.has(name))],
    lost: before !== after && inner.length === 0 ? [...all, before] : all,
  };
}
