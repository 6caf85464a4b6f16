/**
 * The steps that were renamed in a draft. The tests beside an automation name its steps too: they are changed together with its
 * file, and shown before that.
 */

import { Problem, api, data } from "../api/client";
import { readFile, writeFile } from "../api/files";
import type { ProjectFile } from "../api/types";
import { applied } from "./outline";

export interface Rename {
  from: string;
  to: string;
}

/** A change of a file of tests. */
export interface TestChange {
  path: string;
  etag: string;
  before: string;
  after: string;
  /** The reason for which the file cannot follow. */
  problem?: string;
}

/** The renames with another one after them: `a` to `b` to `c` is `a` to `c`, and `a` to `b` to `a` is dropped. */
export function withRename(renames: Rename[], next: Rename): Rename[] {
  const earlier = renames.find((one) => one.to === next.from);
  const merged = { from: earlier?.from ?? next.from, to: next.to };
  const others = renames.filter((one) => one !== earlier);
  return merged.from === merged.to ? others : [...others, merged];
}

/** The renames that hold in a text with these steps: an undo takes one back. */
export function holding(renames: Rename[], steps: string[]): Rename[] {
  return renames.filter(({ from, to }) => steps.includes(to) && !steps.includes(from));
}

/** The paths that the tests of an automation may have. */
export function testPaths(path: string): string[] {
  const stem = path.replace(/\.ya?ml$/, "");
  return [`${stem}.test.yaml`, `${stem}.test.yml`];
}

/** True if a file of tests is for an automation: its key `automation` names it, or is absent. `tests` is the data of the file. */
export function areOf(tests: unknown, automation: string): boolean {
  const named = typeof tests === "object" && tests !== null && "automation" in tests ? tests.automation : undefined;
  return named === undefined || named === automation;
}

/** The changes of the tests beside an automation that follow renamed steps. */
export async function testChanges(path: string, automation: string, renames: Rename[]): Promise<TestChange[]> {
  if (renames.length === 0) {
    return [];
  }
  const found = await Promise.all(testPaths(path).map((test) => follow(test, automation, renames)));
  return found.filter((change) => change !== undefined);
}

async function follow(path: string, automation: string, renames: Rename[]): Promise<TestChange | undefined> {
  let file: ProjectFile;
  try {
    file = await readFile(path);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) {
      return undefined;
    }
    throw error;
  }
  const { text, etag } = file;
  const checked = await data(api.POST("/api/v1/validate", { body: { path, text, include: ["data"] } }));
  if (!areOf(checked.data, automation)) {
    return undefined;
  }
  const change = { path, etag, before: text };
  const operations = renames.map(({ from, to }) => ({ op: "renameStep" as const, from, to }));
  try {
    const { changes } = await data(api.POST("/api/v1/edit", { body: { path, text, operations } }));
    return changes.length === 0 ? undefined : { ...change, after: applied(text, changes) };
  } catch (error) {
    return { ...change, after: text, problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Writes the changes, each over the version that was read. Throws the failures. */
export async function writeTests(changes: TestChange[]): Promise<void> {
  for (const { path, etag, after, problem } of changes) {
    if (problem === undefined) {
      const result = await writeFile(path, after, { etag });
      if (result.kind !== "written") {
        throw new Error(result.kind === "errors" ? `${path}: ${result.diagnostics[0]?.message ?? ""}` : `${path} has changed meanwhile`);
      }
    }
  }
}
