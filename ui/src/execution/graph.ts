/** The graph as a tree: the place of each step, the turns of its loops, and the way of the arrow keys through it. */

import { turnsOf, type Graph, type GraphBlock, type GraphStep, type StepView } from "./model";

/** A step with its place in the graph. */
export interface Place {
  step: GraphStep;
  /** From 1. */
  level: number;
  /** The step whose list it is in; absent at the top. */
  parent: GraphStep | undefined;
  /** The loops around it, outermost first. */
  loops: GraphStep[];
  /** The name of its list, such as "then" or "on error". */
  list: string;
  /** Its position in the list, from 1, and the length of the list. */
  position: number;
  size: number;
}

/** A list of steps inside a step, with its title. */
export interface NamedList {
  title: string;
  kind: GraphBlock["kind"] | "error" | "undo";
  steps: GraphStep[];
}

/** The lists inside a step, in the order in which they are drawn. */
export function lists(step: GraphStep): NamedList[] {
  const found: NamedList[] = step.blocks.map(({ name, kind, steps }) => ({
    title: name ?? (kind === "loop" ? "each turn" : "steps"),
    kind,
    steps,
  }));
  if (step.onError) {
    found.push({ title: "on error", kind: "error", steps: step.onError });
  }
  if (step.undo) {
    found.push({ title: "undo ↶", kind: "undo", steps: step.undo });
  }
  return found;
}

/** Every step with its place, by id, in the order of the file. */
export function places(graph: Graph): Map<string, Place> {
  const found = new Map<string, Place>();
  const walk = (steps: GraphStep[], level: number, parent: GraphStep | undefined, loops: GraphStep[], list: string) => {
    for (const [index, step] of steps.entries()) {
      found.set(step.id, { step, level, parent, loops, list, position: index + 1, size: steps.length });
      for (const inner of lists(step)) {
        walk(inner.steps, level + 1, step, inner.kind === "loop" ? [...loops, step] : loops, inner.title);
      }
    }
  };
  walk(graph.steps, 1, undefined, [], "steps");
  walk(graph.onError ?? [], 1, undefined, [], "on error");
  walk(graph.finally ?? [], 1, undefined, [], "finally");
  return found;
}

/** The most visible steps before deeper blocks are folded at first. */
const MANY = 60;
/** The level whose blocks are folded then. */
const DEEP = 2;

/** The blocks that are folded at first: of a large graph those below the second level. */
export function foldedAtFirst(all: Map<string, Place>): Set<string> {
  if (all.size <= MANY) {
    return new Set();
  }
  const deep = [...all.values()].filter(({ step, level }) => level >= DEEP && lists(step).length > 0);
  return new Set(deep.map(({ step }) => step.id));
}

/** The steps that are drawn, top to bottom. */
export function visible(graph: Graph, folded: ReadonlySet<string>): string[] {
  const found: string[] = [];
  const walk = (steps: GraphStep[]) => {
    for (const step of steps) {
      found.push(step.id);
      if (!folded.has(step.id)) {
        lists(step).forEach((inner) => walk(inner.steps));
      }
    }
  };
  [graph.steps, graph.onError ?? [], graph.finally ?? []].forEach(walk);
  return found;
}

/** What a key does to the selected step: another step, or a block that folds. */
export type Move = { select: string } | { fold: string } | { unfold: string } | undefined;

/** The move of a key, as in every tree: up and down, into a block and out of it. */
export function move(key: string, at: string, graph: Graph, all: Map<string, Place>, folded: ReadonlySet<string>): Move {
  const order = visible(graph, folded);
  const index = order.indexOf(at);
  const place = all.get(at);
  const select = (id: string | undefined): Move => (id === undefined ? undefined : { select: id });
  const children = place ? lists(place.step).flatMap(({ steps }) => steps) : [];
  switch (key) {
    case "ArrowDown":
      return select(order[index + 1]);
    case "ArrowUp":
      return select(order[index - 1]);
    case "Home":
      return select(order[0]);
    case "End":
      return select(order.at(-1));
    case "ArrowRight":
      return folded.has(at) && children.length > 0 ? { unfold: at } : select(children[0]?.id);
    case "ArrowLeft":
      return children.length > 0 && !folded.has(at) && place?.parent === undefined
        ? { fold: at }
        : select(place?.parent?.id);
    case " ":
      return children.length === 0 ? undefined : folded.has(at) ? { unfold: at } : { fold: at };
    default:
      return undefined;
  }
}

/** The turns of one loop that an execution took. */
export interface Turns {
  count: number;
  failed: number[];
  /** The one that is shown where nobody has chosen: the first that failed, else the first that is open, else the first. */
  first: number;
}

/** The turns of a loop, in one turn of the loops around it. */
export function turns(loop: GraphStep, outer: readonly number[], views: Iterable<StepView>): Turns {
  const inside = new Set<string>();
  const walk = (steps: GraphStep[]) => {
    for (const step of steps) {
      inside.add(step.id);
      lists(step).forEach((inner) => walk(inner.steps));
    }
  };
  loop.blocks.forEach((block) => walk(block.steps));
  let count = 0;
  const failed = new Set<number>();
  let open: number | undefined;
  for (const view of views) {
    const id = view.step.replace(/\[.*$/, "");
    if (!inside.has(id)) {
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

/** The key of a step in the chosen turns of the loops around it. */
export const keyIn = (id: string, chosen: readonly number[]): string =>
  id + chosen.map((turn) => `[${turn}]`).join("");
