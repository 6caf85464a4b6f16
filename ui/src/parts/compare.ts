/** The comparison of two executions: their steps, aligned by path, and the differences of their values. */

import microdiff, { type Difference } from "microdiff";

import type { Execution, StepView } from "../api/types";
import { duration } from "../format";
import { asInteger, parse } from "../value/exact";
import { asFile } from "../value/file";

export interface Change {
  /** The path of the value: `body.pageId`; empty if the whole value differs. */
  path: string;
  left: unknown;
  right: unknown;
}

/** The differences of one value, with its name. */
export interface Named {
  name: string;
  changes: Change[];
}

/** A step on one side: its status, and its attempts and duration in words. */
export interface Cell {
  status?: string;
  words: string;
}

export interface Row {
  step: string;
  /** Absent if the step did not run there. */
  left?: Cell;
  right?: Cell;
  /** The differences of results, errors and requests, by their names. */
  changes: Named[];
  same: boolean;
}

/** Maximum number of differences of one value that are listed. */
const MOST = 100;

/** The differences of two values. */
export function changes(left: unknown, right: unknown): Change[] {
  const [before, after] = [plain(left), plain(right)];
  if (!isTree(before) || !isTree(after) || Array.isArray(before) !== Array.isArray(after)) {
    return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path: "", left: before, right: after }];
  }
  return microdiff(before, after)
    .slice(0, MOST)
    .map((found) => ({
      path: written(areDigits(found) ? found.path.slice(0, -1) : found.path),
      left: found.type === "CREATE" ? undefined : found.oldValue,
      right: found.type === "REMOVE" ? undefined : found.value,
    }));
}

/** True for two long integers, which differ in their digits. */
const areDigits = ({ path, type, ...sides }: Difference) =>
  type === "CHANGE" && path.at(-1) === "rawJSON" && /^-?\d+$/.test(String((sides as { value?: unknown }).value));

const written = (path: (string | number)[]) =>
  path.map((part, index) => (typeof part === "number" ? `[${part}]` : index > 0 ? `.${part}` : part)).join("");

type Tree = Record<string, unknown> | unknown[];
const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && asInteger(value) === undefined;

/** A file with JSON as its JSON, so that its members are compared. */
export function plain(value: unknown): unknown {
  const file = asFile(value);
  if (file?.encoding === "utf8") {
    try {
      return parse(file.data ?? "");
    } catch {
      return file.data;
    }
  }
  return value;
}

/** Aligns the steps of two executions by their path, in the order of the left one; steps of the right one alone follow the
 * step that they follow there. */
export function align(left: StepView[], right: StepView[]): Row[] {
  const others = new Map(right.map((step) => [step.step, step]));
  const known = new Set(left.map((step) => step.step));
  const rows = left.map((step) => row(step.step, step, others.get(step.step)));
  let after = -1;
  for (const step of right) {
    const at = rows.findIndex((one) => one.step === step.step);
    if (known.has(step.step)) {
      after = at;
    } else {
      after += 1;
      rows.splice(after, 0, row(step.step, undefined, step));
    }
  }
  return rows;
}

function row(step: string, left: StepView | undefined, right: StepView | undefined): Row {
  // A step that keeps its result made no call.
  const kept = left?.kept === true || right?.kept === true;
  const pairs: [string, unknown, unknown][] = [
    ...(kept
      ? []
      : ([
          ["input", member(left, "input"), member(right, "input")],
          ["request", left?.request, right?.request],
        ] as [string, unknown, unknown][])),
    ["result", left?.result, right?.result],
    ["error", left?.error?.message, right?.error?.message],
    ...(left && right ? [["attempts", tries(left), tries(right)] as [string, unknown, unknown]] : []),
  ];
  const found = differences(pairs);
  return {
    step,
    ...(left ? { left: cell(left) } : {}),
    ...(right ? { right: cell(right) } : {}),
    changes: found,
    same: found.length === 0 && left?.status === right?.status,
  };
}

/** The pairs of values that differ, by their names. */
export function differences(pairs: [string, unknown, unknown][]): Named[] {
  return pairs.map(([name, left, right]) => ({ name, changes: changes(left, right) })).filter((one) => one.changes.length > 0);
}

/** A step with its attempts and its duration in words. */
export function cell(step: StepView): Cell {
  const attempts = step.attempts && step.attempts > 1 ? `${step.attempts} attempts, ` : "";
  return { status: step.status, words: step.kept ? "kept" : attempts + duration(step.tookMs) };
}

/** A member of a value that not every variant has. */
const member = (value: object | undefined, name: string): unknown => (value as Record<string, unknown> | undefined)?.[name];

/** The number of attempts; a step that keeps its result has none to compare. */
const tries = (step: StepView | undefined) => (step?.kept ? 1 : step?.attempts);

/** The differences of the two ends: the result or the error, and the response. */
export function ends(left: Execution, right: Execution): Named[] {
  const end = ({ outcome }: Execution) =>
    outcome && "error" in outcome ? outcome.error.message : (member(outcome, "reason") ?? member(outcome, "result"));
  const response = ({ response, answered }: Execution) =>
    response ? { status: response.status, body: plain(response.body) } : answered ? { status: answered } : undefined;
  return differences([
    ["payload", payload(left), payload(right)],
    ["result", end(left), end(right)],
    ["response", response(left), response(right)],
  ]);
}

const payload = ({ payload }: Execution) => ({ ...payload, body: plain(member(payload, "body")) });

/** A value in a few words. */
export function brief(value: unknown, most = 80): string {
  if (value === undefined) {
    return "–";
  }
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
