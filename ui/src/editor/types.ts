/** The editor as its owner sees it. */

import type { Change, Diagnostic } from "../api/types";

export interface EditorHandle {
  /** Applies changes as one step that can be undone. */
  apply(changes: Change[]): void;
  /** Selects a range and shows it. */
  reveal(from: number, to: number, focus: boolean): void;
  /** Applies the correction of a problem. */
  correct(problem: Diagnostic): void;
  undo(): void;
  focus(): void;
}
