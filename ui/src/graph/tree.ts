/** The graph as a tree: the place of each step, the blocks that are folded at first, and the way of the arrow keys through it. */

import type { Graph, GraphBlock, GraphStep, StepView } from "../api/types";
import { idOf } from "./key";

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
  /** The index of its list among those of the parent. */
  column: number;
  /** Its position in the list, from 1, and the length of the list. */
  position: number;
  size: number;
}

/** A list of steps inside a step, with its title. */
export interface NamedList {
  title: string;
  kind: GraphBlock["kind"] | "error" | "finally" | "undo";
  steps: GraphStep[];
}

/** True for a step whose list runs once a turn. */
export const isLoop = (step: GraphStep): boolean => step.verb === "forEach" || step.verb === "repeat";

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
  if (step.finally) {
    found.push({ title: "finally", kind: "finally", steps: step.finally });
  }
  if (step.undo) {
    found.push({ title: "undo ↶", kind: "undo", steps: step.undo });
  }
  return found;
}

/** The ids of these steps and of all steps inside them, in the order of the file. */
export const descendants = (steps: readonly GraphStep[]): string[] =>
  steps.flatMap((step) => [step.id, ...lists(step).flatMap((inner) => descendants(inner.steps))]);

/** Every step with its place, by id, in the order of the file. */
export function places(graph: Graph): Map<string, Place> {
  const found = new Map<string, Place>();
  const walk = (steps: GraphStep[], at: Pick<Place, "level" | "parent" | "loops" | "list" | "column">) => {
    for (const [index, step] of steps.entries()) {
      found.set(step.id, { ...at, step, position: index + 1, size: steps.length });
      for (const [column, inner] of lists(step).entries()) {
        const loops = inner.kind === "loop" ? [...at.loops, step] : at.loops;
        walk(inner.steps, { level: at.level + 1, parent: step, loops, list: inner.title, column });
      }
    }
  };
  const top = { level: 1, parent: undefined, loops: [], column: 0 };
  walk(graph.steps, { ...top, list: "steps" });
  walk(graph.onError ?? [], { ...top, list: "on error" });
  walk(graph.finally ?? [], { ...top, list: "finally" });
  return found;
}

/** Maximum number of steps that are named as not run. */
const MOST_UNRUN = 20;

/** The steps that did not run although the block around them did, in the order of the file, without error handlers. */
export function unrun(all: ReadonlyMap<string, Place>, steps: readonly Pick<StepView, "step" | "status">[]): string[] {
  const known = new Set(steps.map(({ step }) => idOf(step)));
  const entered = new Set(steps.filter(({ status }) => status !== "skipped").map(({ step }) => idOf(step)));
  const missing = [...all.values()].filter(
    ({ step, parent, list }) => !known.has(step.id) && (parent === undefined || entered.has(parent.id)) && !/^(on error|undo)/.test(list),
  );
  return missing.slice(0, MOST_UNRUN).map(({ step }) => step.id);
}

/** The index of the list of `outer` that holds a step at any depth; `undefined` if none does. */
export function columnOf(outer: GraphStep, id: string, all: ReadonlyMap<string, Place>): number | undefined {
  let place = all.get(id);
  while (place && place.parent?.id !== outer.id) {
    place = place.parent && all.get(place.parent.id);
  }
  return place?.column;
}

/** Maximum number of visible steps before deeper blocks are folded at first. */
const MANY = 60;
/** The level whose blocks are folded then. */
const DEEP = 2;

/** The blocks that are folded at first: of a large graph those below the second level. */
export function foldedAtFirst(all: ReadonlyMap<string, Place>): Set<string> {
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

/** The effect of a key on the selected step: another step, or a block that folds. */
export type Move = { select: string } | { fold: string } | { unfold: string } | undefined;

/** The move of a key, as in every tree: up and down, into a block and out of it. */
export function move(
  key: string,
  at: string,
  graph: Graph,
  all: ReadonlyMap<string, Place>,
  folded: ReadonlySet<string>,
): Move {
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
