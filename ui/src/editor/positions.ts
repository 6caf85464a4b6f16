/** Positions in texts: the daemon counts lines and characters from 1, an emoji as one; the editor counts UTF-16 units. */

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
