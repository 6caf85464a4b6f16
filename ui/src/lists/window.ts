/** The rows in sight of a long list whose rows have one height. */

/** The rows beyond those in sight, so that scrolling shows no gap. */
const SPARE = 12;

/** The range of drawn rows, without its end; `above` is the height of the list above the window, in pixels. */
export function inSight(above: number, view: number, height: number, count: number): { first: number; last: number } {
  const top = Math.floor(Math.max(0, above) / height);
  const first = Math.max(0, Math.min(count, top - SPARE));
  return { first, last: Math.min(count, top + Math.ceil(view / height) + SPARE) };
}

/** The rows that may come into sight at once for each row to keep its element. */
const FEW = 8;

/** The elements of the rows in sight, by the ids of the rows. `known` are those of before, in their order. If few rows are new, the others keep
 * their elements, as all do while one of them has the focus (`isHeld`). Else the elements stay where they are and get other rows: to fill one takes
 * less than to make one. */
export function elements(ids: string[], known: ReadonlyMap<string, number>, isHeld: boolean): Map<string, number> {
  const before = [...known.values()];
  let next = 1 + Math.max(-1, ...before);
  const isFew = ids.filter((id) => !known.has(id)).length <= FEW;
  return new Map(ids.map((id, place) => [id, (isHeld || isFew ? known.get(id) : before[place]) ?? next++]));
}

/** The pixels by which the window has to scroll for a row to be in sight. `top` is the top of the list in the window. */
export function distance(index: number, top: number, view: number, height: number): number {
  const start = top + index * height;
  return start < height ? start - height : Math.max(0, start + 2 * height - view);
}
