/** What all boxes of a graph share. */

import type { Turns } from "./graph";
import type { GraphStep, StepView } from "./model";

export interface GraphState {
  /** The state of a step by its key; absent where no execution is shown. */
  readonly views: ReadonlyMap<string, StepView> | undefined;
  /** The id of the selected step. */
  readonly selected: string;
  readonly folded: ReadonlySet<string>;
  /** The step under the pointer, whose needs are lit. */
  hovered: string;
  /** The turns of a loop, in the chosen turns of those around it. */
  turns(loop: GraphStep, chosen: readonly number[]): Turns;
  /** The chosen turn of a loop. */
  turn(loop: GraphStep, chosen: readonly number[]): number;
  choose(loop: GraphStep, chosen: readonly number[], turn: number): void;
  select(key: string): void;
  fold(id: string): void;
}
