/** The targets of the palette. */

/** A place that the palette offers. */
export interface Place {
  kind: string;
  name: string;
  /** Further words by which it is found. */
  hint?: string;
  path: string;
}

/** The most places that are offered. */
export const MOST = 50;

/**
 * The places that match a text, best first: those that begin with it, then those with a word that does, then those that
 * contain it, then those with its letters in order.
 */
export function matching(places: Place[], text: string): Place[] {
  const wanted = text.trim().toLowerCase();
  const ranked = places
    .map((place, index) => ({ place, index, rank: rank(`${place.name} ${place.hint ?? ""}`.toLowerCase(), wanted) }))
    .filter(({ rank: found }) => found < Infinity)
    .sort((one, other) => one.rank - other.rank || one.index - other.index);
  return ranked.slice(0, MOST).map(({ place }) => place);
}

function rank(name: string, wanted: string): number {
  if (wanted === "" || name.startsWith(wanted)) {
    return 0;
  }
  if (name.split(/[\s\-_./·]+/).some((word) => word.startsWith(wanted))) {
    return 1;
  }
  if (name.includes(wanted)) {
    return 2;
  }
  let from = 0;
  for (const letter of wanted.replace(/\s/g, "")) {
    from = name.indexOf(letter, from) + 1;
    if (from === 0) {
      return Infinity;
    }
  }
  return 3;
}

/** The execution whose id, or the beginning of whose id, a text is; `undefined` if it cannot be one. */
export function executionOf(text: string): Place | undefined {
  const id = text.trim().toLowerCase();
  return /^[0-9a-f]{4}[0-9a-f-]{0,32}$/.test(id) ? { kind: "Execution", name: id, path: `/executions/${id}` } : undefined;
}
