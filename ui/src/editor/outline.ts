/** Places of steps, and values in the data of a file. */

import type { Change, OutlineStep, Path } from "../api/types";

/** The innermost step that holds an offset. */
export function stepAt(outline: readonly OutlineStep[], offset: number): OutlineStep | undefined {
  let found: OutlineStep | undefined;
  for (const step of outline) {
    if (step.from <= offset && offset <= step.to && (found === undefined || step.from >= found.from)) {
      found = step;
    }
  }
  return found;
}

/** The value at a path; `undefined` if there is none. */
export function valueAt(data: unknown, at: Path): unknown {
  let value = data;
  for (const segment of at) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, segment)) {
      return undefined;
    }
    value = (value as Record<string | number, unknown>)[segment];
  }
  return value;
}

/** A text with changes, which are ascending and disjoint. */
export function applied(text: string, changes: readonly Change[]): string {
  let result = "";
  let at = 0;
  for (const change of changes) {
    result += text.slice(at, change.from) + change.insert;
    at = change.to;
  }
  return result + text.slice(at);
}
