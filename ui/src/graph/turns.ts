/** Turns of loops: how many an execution took, and which one the graph shows. */

import type { GraphStep, StepView } from "../api/types";
import { idOf, turnsOf } from "./key";
import { descendants } from "./tree";

/** The turns of one loop that an execution took. */
export interface Turns {
  count: number;
  failed: number[];
  /** The turn that is shown until another is chosen: the first failed one, else the first open one, else the first. */
  first: number;
}

/** The turns of a loop, in one turn of each loop around it. */
export function turns(loop: GraphStep, outer: readonly number[], views: Iterable<StepView>): Turns {
  const inside = new Set(loop.blocks.flatMap(({ steps }) => descendants(steps)));
  let count = 0;
  const failed = new Set<number>();
  let open: number | undefined;
  for (const view of views) {
    if (!inside.has(idOf(view.step))) {
      continue;
    }
    const path = turnsOf(view.step);
    const turn = path[outer.length];
    if (turn === undefined || outer.some((index, depth) => path[depth] !== index)) {
      continue;
    }
    count = Math.max(count, turn + 1);
    if (view.status === "failed") {
      failed.add(turn);
    } else if (view.status === "running" || view.status === "waiting") {
      open = Math.min(open ?? turn, turn);
    }
  }
  const sorted = [...failed].sort((a, b) => a - b);
  return { count, failed: sorted, first: sorted[0] ?? open ?? 0 };
}
