import { diffLines } from "diff";

/** The number of places at which two texts differ: lines in a row that were added, removed or replaced are one. */
export function countChanges(before: string, after: string): number {
  if (before === after) {
    return 0;
  }
  let count = 0;
  let isIn = false;
  for (const { added, removed } of diffLines(before, after)) {
    const isChange = added || removed;
    count += isChange && !isIn ? 1 : 0;
    isIn = isChange;
  }
  return count;
}

/** A number of unsaved changes in words. */
export const unsaved = (count: number): string => `${count} unsaved ${count === 1 ? "change" : "changes"}`;
