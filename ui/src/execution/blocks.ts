/** Blocks of an execution: steps with lists inside. The log records a block at its end only, so an open one is known by its steps. */

import type { StepView } from "../api/types";
import { idOf, keyIn, turnsOf } from "../graph/key";
import type { Place } from "../graph/tree";
import { instant } from "./instant";

/** The keys of the blocks around a step, innermost first. */
export function around(key: string, all: ReadonlyMap<string, Place>): string[] {
  const turns = turnsOf(key);
  const found: string[] = [];
  for (let parent = all.get(idOf(key))?.parent; parent; parent = all.get(parent.id)?.parent) {
    found.push(keyIn(parent.id, turns.slice(0, all.get(parent.id)?.loops.length ?? 0)));
  }
  return found;
}

/** The steps, and the open blocks around them, each before its first step. */
export function withBlocks(
  steps: readonly StepView[],
  all: ReadonlyMap<string, Place> | undefined,
  /** True once the execution has ended. */
  ended: boolean,
): readonly StepView[] {
  if (!all) {
    return steps;
  }
  const known = new Set(steps.map(({ step }) => step));
  const open = new Map<string, StepView>();
  /** The open blocks in which a step runs, and those in which one waits. */
  const [runs, waits] = [new Set<string>(), new Set<string>()];
  const found: StepView[] = [];
  for (const view of steps) {
    const missing = around(view.step, all).filter((key) => !known.has(key));
    for (const key of missing.reverse()) {
      let block = open.get(key);
      if (!block) {
        block = { step: key, status: "left", attempts: 1, tries: [] };
        open.set(key, block);
        found.push(block);
      }
      const began = view.startedAt ?? view.finishedAt;
      if (began !== undefined && (block.startedAt === undefined || instant(began) < instant(block.startedAt))) {
        block.startedAt = began;
      }
      (view.status === "waiting" ? waits : view.status === "running" || view.status === "handling" ? runs : undefined)?.add(key);
    }
    found.push(view);
  }
  for (const [key, block] of open) {
    if (!ended) {
      // Between two of its steps it runs, too.
      block.status = waits.has(key) && !runs.has(key) ? "waiting" : "running";
    }
  }
  return found;
}
