/** The shapes of the routes that serve the editor. */

import type { Diagnostic, PlanStep } from "../api/types";

/** A path in the tree of a file: keys and indices. */
export type Path = (string | number)[];

/** A change of a text, in UTF-16 units. */
export interface Change {
  from: number;
  to: number;
  insert: string;
}

export type Operation =
  | { op: "set"; at: Path; value: unknown }
  | { op: "remove"; at: Path }
  | { op: "insert"; at: Path; value: unknown }
  | { op: "move"; from: Path; to: Path }
  | { op: "renameStep"; from: string; to: string }
  | { op: "replaceTrigger"; value: unknown };

/** A step and its place in the text. */
export interface OutlineStep {
  id: string;
  name?: string;
  verb: string;
  at: Path;
  from: number;
  to: number;
}

/** What the daemon says of a text. */
export interface Checked {
  diagnostics: Diagnostic[];
  graph?: { steps: PlanStep[]; onError?: PlanStep[]; finally?: PlanStep[] };
  outline?: OutlineStep[];
  references?: { step: string; from: number; to: number }[];
  data?: unknown;
}

export interface CompletionItem {
  label: string;
  kind: string;
  detail?: string;
  about?: string;
  insert?: string;
}

/** The editor as its owner sees it. */
export interface EditorHandle {
  /** Applies changes as one step that can be undone. */
  apply(changes: Change[]): void;
  /** Selects a range and shows it. */
  reveal(from: number, to: number, focus: boolean): void;
  undo(): void;
  focus(): void;
}
