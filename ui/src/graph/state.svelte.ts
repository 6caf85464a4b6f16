import type { Snippet } from "svelte";

import type { Connection, Graph, GraphStep, StepView } from "../api/types";
import { idOf, keyIn, turnsOf } from "./key";
import { columnOf, foldedAtFirst, places } from "./tree";
import { turns, type Turns } from "./turns";

/** The properties of a graph. All but the first three depend on the page that shows it. */
export interface GraphProps {
  graph: Graph;
  /** The key of the selected step: its id with the turns of the loops around it. `trigger` for the trigger. */
  selected: string;
  select: (key: string) => void;
  /** The id of the selected one of several triggers; absent if all of them are selected together. */
  trigger?: string | undefined;
  /** Selects a trigger by its id, in place of `select`. */
  chooseTrigger?: (id: string) => void;
  /** Called when a person points at a step or the trigger and selects it, after `select`. */
  pointed?: () => void;
  /** Shows more of the selected step; the key Enter. */
  inspect?: () => void;
  /** Shows the line of the selected step; the key `e`. */
  showSource?: () => void;
  /** The states of the steps by key; absent where no execution is shown. */
  views?: ReadonlyMap<string, StepView>;
  /** The numbers of turns of the steps of which only some are among `views`. */
  counts?: ReadonlyMap<string, number>;
  /** The chosen turn of the selected loop. */
  turn?: number | undefined;
  chooseTurn?: (loop: string, turn: number) => void;
  /** The states of the connections by name, for the badges of the steps that use them. */
  health?: ReadonlyMap<string, Connection["state"] | "missing">;
  /** Marks of the trigger. */
  triggerMarks?: Snippet;
  /** Further marks of a step. */
  marks?: Snippet<[GraphStep]>;
}

/** The smallest and the largest zoom, and the step between two. */
const [SMALLEST, LARGEST, ZOOM_STEP] = [0.5, 1.5, 0.1];

/** The state of a graph that all of its boxes share. */
export class GraphState {
  /** The id of the step under the pointer, whose needs are lit. */
  hovered = $state("");
  zoom = $state(1);
  /** The blocks whose state differs from the first one. */
  private changed = $state.raw<ReadonlySet<string>>(new Set());
  readonly places = $derived.by(() => places(this.props.graph));
  private readonly atFirst = $derived(foldedAtFirst(this.places));
  readonly folded: ReadonlySet<string> = $derived(
    new Set([...this.places.keys()].filter((id) => this.atFirst.has(id) !== this.changed.has(id))),
  );
  /** The id of the selected step. */
  readonly selected = $derived.by(() => idOf(this.props.selected));
  private readonly path = $derived.by(() => turnsOf(this.props.selected));
  private readonly knownTurns = $derived.by(() => {
    void this.props.views;
    void this.props.graph;
    return new Map<string, Turns>();
  });

  constructor(readonly props: GraphProps) {}

  /** True if the graph shows an execution. */
  get runs(): boolean {
    return this.props.views !== undefined;
  }

  /** The state of a step by its key; `undefined` if it has not run. */
  view(key: string): StepView | undefined {
    return this.props.views?.get(key);
  }

  /** The turns of a loop, in the chosen turns of those around it. */
  turns(loop: GraphStep, chosen: readonly number[]): Turns {
    const key = keyIn(loop.id, chosen);
    const known = this.knownTurns.get(key);
    if (known) {
      return known;
    }
    const found = turns(loop, chosen, this.props.views?.values() ?? []);
    if (chosen.length === 0) {
      const inside = loop.blocks.flatMap(({ steps }) => steps.map(({ id }) => this.props.counts?.get(id) ?? 0));
      found.count = Math.max(found.count, ...inside);
    }
    this.knownTurns.set(key, found);
    return found;
  }

  /** The turn of a loop that is shown. */
  turn(loop: GraphStep, chosen: readonly number[]): number {
    const around = this.places.get(this.selected)?.loops ?? [];
    const depth = chosen.length;
    if (around[depth]?.id === loop.id && chosen.every((index, at) => this.path[at] === index)) {
      return this.path[depth] ?? 0;
    }
    if (this.selected === loop.id && this.props.turn !== undefined) {
      return this.props.turn;
    }
    return this.turns(loop, chosen).first;
  }

  /** The shown turns of nested loops, outermost first; empty without an execution. */
  shownTurns(loops: readonly GraphStep[]): number[] {
    const shown: number[] = [];
    for (const loop of this.runs ? loops : []) {
      shown.push(this.turn(loop, [...shown]));
    }
    return shown;
  }

  choose(loop: GraphStep, chosen: readonly number[], turn: number): void {
    this.props.chooseTurn?.(keyIn(loop.id, chosen), turn);
  }

  /** The index of the list of a step that is shown where only one fits: that of the selected step, else one that ran. */
  column(step: GraphStep, lists: readonly { steps: GraphStep[] }[], chosen: readonly number[]): number {
    const selected = columnOf(step, this.selected, this.places);
    const ran = lists.findIndex(({ steps }) => steps.some(({ id }) => this.view(keyIn(id, chosen)) !== undefined));
    return selected ?? Math.max(0, ran);
  }

  /** True if the selected step is inside another one. */
  isInside(outer: GraphStep): boolean {
    return columnOf(outer, this.selected, this.places) !== undefined;
  }

  /** Selects a step by its id, in the turns that are shown. */
  select(id: string): void {
    this.props.select(keyIn(id, this.shownTurns(this.places.get(id)?.loops ?? [])));
  }

  /** Selects a step that a person points at. */
  point(id: string): void {
    this.select(id);
    this.props.pointed?.();
  }

  /** Folds or unfolds a block. */
  fold(id: string): void {
    const next = new Set(this.changed);
    if (!next.delete(id)) {
      next.add(id);
    }
    this.changed = next;
  }

  zoomBy(steps: number): void {
    const next = Math.round((this.zoom + steps * ZOOM_STEP) * 10) / 10;
    this.zoom = Math.min(LARGEST, Math.max(SMALLEST, next));
  }
}
