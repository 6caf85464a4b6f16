/** Positions in texts: the daemon counts lines and characters from 1, an emoji as one; the editor counts UTF-16 units. */

import type { Diagnostic } from "../api/types";

interface Lines {
  lines: number;
  line(number: number): { from: number; to: number; text: string };
}

/** The offset of a line and a column of the daemon, within the text. */
export function offset(doc: Lines, line: number | undefined, column: number | undefined): number {
  const found = doc.line(Math.min(Math.max(line ?? 1, 1), doc.lines));
  let units = 0;
  let left = Math.max((column ?? 1) - 1, 0);
  for (const character of found.text) {
    if (left === 0) {
      break;
    }
    units += character.length;
    left -= 1;
  }
  return Math.min(found.from + units, found.to);
}

/** A text in place of another one. */
export type Correction = Pick<Diagnostic, "line" | "column" | "endLine" | "endColumn"> & { text: string };

/** The correction of a problem: its own, or the valid name that is nearest to the one found. */
export function correctionOf({ fix, nearest, line, column, endLine, endColumn }: Diagnostic): Correction | undefined {
  return fix ?? (nearest === null ? undefined : { line, column, endLine, endColumn, text: nearest });
}

export const correctionWords = ({ text }: Correction): string => `change to ${text.trim().slice(0, 40) || "nothing"}`;
