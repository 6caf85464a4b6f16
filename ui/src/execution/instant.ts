/** Instants as the daemon writes them. */

/** An instant in milliseconds since 1970, with the microseconds that the daemon writes. */
export function instant(at: string): number {
  const finer = /\.\d{3}(\d+)/.exec(at)?.[1];
  return Date.parse(at) + (finer === undefined ? 0 : Number(`0.${finer}`));
}

/** An instant as the daemon writes it. */
export const iso = (ms: number): string => new Date(ms).toISOString();
