/** Places of steps, and values in the data of a file. */

import type { Change, Diagnostic, OutlineStep, Path, Plan } from "../api/types";

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

/** The value at a path; `undefined` if it is missing. */
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

/** The number of errors in each step, without those of the steps inside it. */
export function errorsByStep(problems: readonly Pick<Diagnostic, "step" | "severity">[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const { step, severity } of problems) {
    if (step !== null && severity === "error") {
      found.set(step, (found.get(step) ?? 0) + 1);
    }
  }
  return found;
}

/** The changes of the steps of a file in a plan, by their ids: `added`, `changed`, `moved` or `removed`. */
export function plannedSteps(plan: Plan | undefined, path: string): Map<string, string> {
  const details = plan?.changes.find((one) => one.path === path)?.details.filter(({ part }) => part === "steps") ?? [];
  return new Map(details.flatMap(({ how, names }) => (names ?? []).map((name) => [name, how] as const)));
}

/** The offset of a key that a text has: inside a step, or at the head of the file. The end of the step if it is not found. */
export function placeOfKey(text: string, step: Pick<OutlineStep, "from" | "to"> | undefined, at: Path): number {
  const start = step && at.length > 1 ? step.from : 0;
  const key = String(at.at(-1)).replace(/[^\w]/g, "\\$&");
  const found = text.slice(start).search(new RegExp(`(^|\\n|[{,-] ?) *${key} *:`));
  return found < 0 ? (step?.to ?? 0) : start + found + text.slice(start + found).search(/\S/);
}
