/** Instants as the daemon writes them. */

/** An instant in milliseconds since 1970, with the microseconds that the daemon writes. */
export function instant(at: string): number {
  const finer = /\.\d{3}(\d+)/.exec(at)?.[1];
  return Date.parse(at) + (finer === undefined ? 0 : Number(`0.${finer}`));
}

/** An instant as the daemon writes it, to the microsecond. */
export function iso(ms: number): string {
  const micros = Math.round(ms * 1000);
  const whole = Math.floor(micros / 1000);
  const finer = micros - whole * 1000;
  const text = new Date(whole).toISOString();
  return finer === 0 ? text : text.replace("Z", `${String(finer).padStart(3, "0")}Z`);
}
