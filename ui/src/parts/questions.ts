/** The order of questions on a page: nothing moves under the pointer of a person who answers. */

/** A question that is shown. */
export interface Shown<Q> {
  /** The execution, the step, and the begin of the wait. */
  key: string;
  question: Q;
  /** False once it waits no longer. */
  isOpen: boolean;
}

/**
 * The questions to show. While they are held, each keeps its place: answered ones stay where they are, and new ones
 * come last. Else they are the open ones in their own order.
 */
export function arrange<Q>(shown: readonly Shown<Q>[], open: readonly Omit<Shown<Q>, "isOpen">[], isHeld: boolean): Shown<Q>[] {
  const now = new Map(open.map((one) => [one.key, one]));
  const fresh = (one: Omit<Shown<Q>, "isOpen">) => ({ ...one, isOpen: true });
  if (!isHeld) {
    return open.map(fresh);
  }
  const known = new Set(shown.map(({ key }) => key));
  const kept = shown.map((one) => {
    const still = now.get(one.key);
    return still ? fresh(still) : { ...one, isOpen: false };
  });
  return [...kept, ...open.filter(({ key }) => !known.has(key)).map(fresh)];
}
