/** A JSON value as rows of a tree: only open branches, so that a large value costs only its visible part. */

import type { FileValue } from "../api/types";
import { asInteger } from "./exact";
import { asFile } from "./file";

/** A value that the answer left out, with its size and its beginning. */
export interface LargeValue {
  at: string;
  bytes: number;
  type: string;
  start: string;
  length?: number;
  contentType?: string;
  filename?: string;
  size?: number;
}

export interface Row {
  /** The place in the value: names and positions from the root. */
  path: readonly (string | number)[];
  /** The path as text, unique in the tree. */
  key: string;
  /** The name or position; absent for the root. */
  name: string | number | undefined;
  value: unknown;
  depth: number;
  /** Absent for a leaf. */
  open?: boolean;
  /** The number of entries of a list or an object. */
  count?: number;
  large?: LargeValue;
  /** The file that the value is. It is closed at first. */
  file?: FileValue;
  /** The position among its siblings, from 1, and their number. */
  position: number;
  siblings: number;
}

/** The place of a value as a JSON pointer. */
export const pointer = (path: readonly (string | number)[]): string =>
  path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

/** The value that the answer left out here; `undefined` for any other value, such as one of a sender that has the same name. */
export function asLarge(value: unknown): LargeValue | undefined {
  if (typeof value !== "object" || value === null || !("$large" in value) || Object.keys(value).length !== 1) {
    return undefined;
  }
  const large: unknown = value.$large;
  return isLarge(large) ? large : undefined;
}

function isLarge(value: unknown): value is LargeValue {
  const given = value as Partial<Record<keyof LargeValue, unknown>> | null;
  return (
    typeof given === "object" &&
    typeof given?.at === "string" &&
    typeof given.bytes === "number" &&
    typeof given.type === "string" &&
    typeof given.start === "string"
  );
}

function entries(value: unknown): [string | number, unknown][] | undefined {
  if (Array.isArray(value)) {
    return value.map((item, index) => [index, item]);
  }
  if (typeof value === "object" && value !== null && asInteger(value) === undefined) {
    return Object.entries(value).filter(([, item]) => item !== undefined);
  }
  return undefined;
}

/** The open branches: explicitly opened ones, and others down to a depth unless they were closed. */
export interface Opened {
  opened: ReadonlySet<string>;
  closed: ReadonlySet<string>;
  /** Branches above this depth are open at first. */
  depth: number;
}

/** The rows of a value, top to bottom. Loaded values replace large ones. */
export function rows(root: unknown, state: Opened, loaded: ReadonlyMap<string, unknown> = new Map()): Row[] {
  const found: Row[] = [];
  const walk = (
    given: unknown,
    path: readonly (string | number)[],
    name: string | number | undefined,
    position: number,
    siblings: number,
  ) => {
    const key = pointer(path);
    const left = asLarge(given);
    const value = left !== undefined && loaded.has(left.at) ? loaded.get(left.at) : given;
    const large = value === given ? left : undefined;
    const depth = path.length;
    const row: Row = { path, key, name, value, depth, position, siblings, ...(large ? { large } : {}) };
    found.push(row);
    const inner = large ? undefined : entries(value);
    if (!inner) {
      return;
    }
    row.count = inner.length;
    if (inner.length === 0) {
      return;
    }
    const file = asFile(value);
    if (file) {
      row.file = file;
    }
    row.open = state.opened.has(key) || (!file && depth < state.depth && !state.closed.has(key));
    if (row.open) {
      inner.forEach(([part, item], index) => walk(item, [...path, part], part, index + 1, inner.length));
    }
  };
  walk(root, [], undefined, 1, 1);
  return found;
}

/** The branches that must be open for every value and name with a text to be seen, and how many have it. */
export function search(root: unknown, text: string): { open: Set<string>; hits: string[] } {
  const wanted = text.toLowerCase();
  const open = new Set<string>();
  const hits: string[] = [];
  const walk = (value: unknown, path: (string | number)[]): void => {
    const inner = asLarge(value) ? undefined : entries(value);
    const name = path.length > 0 ? String(path.at(-1)) : "";
    const own = inner ? "" : typeof value === "string" ? value : (asInteger(value) ?? String(value));
    if (`${name}\n${own}`.toLowerCase().includes(wanted)) {
      hits.push(pointer(path));
      for (let depth = 0; depth < path.length; depth += 1) {
        open.add(pointer(path.slice(0, depth)));
      }
    }
    inner?.forEach(([part, item]) => walk(item, [...path, part]));
  };
  if (wanted !== "") {
    walk(root, []);
  }
  return { open, hits };
}

/** The maximum length of a text in a row, in characters. */
const SHORT = 300;

/** The short text of a leaf. A string is in quotes: "1" is not 1, and "null" not null. */
export function text(value: unknown): string {
  if (typeof value !== "string") {
    return value === undefined ? "nothing" : (asInteger(value) ?? String(value));
  }
  return value.length > SHORT ? `${JSON.stringify(value.slice(0, SHORT)).slice(0, -1)}…` : JSON.stringify(value);
}
