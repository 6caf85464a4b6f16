/** JSON whose integers beyond 2⁵³ keep their digits: a number of JavaScript would round them. */

/** What browsers have and the types of TypeScript do not know yet. Where a browser lacks it, such integers are rounded. */
interface Exact {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
}
const exact = JSON as unknown as Partial<Exact>;

/** A text that may have such an integer. Most have none, and are parsed at full speed. */
const LONG = /\d{16}/;
const INTEGER = /^-?\d+$/;

/** Parses JSON. An integer that no number holds becomes an object that [`JSON.stringify`] writes as it was sent. */
export function parse(text: string): unknown {
  const { rawJSON } = exact;
  if (!rawJSON || !LONG.test(text)) {
    return JSON.parse(text);
  }
  const keep = (_: string, value: unknown, context?: { source?: string }) => {
    const source = context?.source ?? "";
    return typeof value === "number" && !Number.isSafeInteger(value) && INTEGER.test(source) ? rawJSON.call(JSON, source) : value;
  };
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown);
}

/** The digits of an integer beyond 2⁵³; `undefined` for any other value. */
export function asInteger(value: unknown): string | undefined {
  return typeof value === "object" && value !== null && exact.isRawJSON?.(value) ? JSON.stringify(value) : undefined;
}

/** The number in a text, an integer with all its digits; `undefined` if the text is no number. */
export function number(text: string): unknown {
  const trimmed = text.trim();
  if (INTEGER.test(trimmed)) {
    return parse(String(BigInt(trimmed)));
  }
  const found = Number(trimmed);
  return trimmed === "" || !Number.isFinite(found) ? undefined : found;
}

/** A value of JSON as a text without quotes. */
export function plainText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** A copy of a value of JSON, free of proxies. */
export function copy<T>(value: T): T {
  return parse(JSON.stringify(value)) as T;
}
