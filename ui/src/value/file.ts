/** Files among the values of the API. */

import type { FileValue } from "../api/types";

/** The file that a value is, also in the form of payloads, `{"$file": …}`; `undefined` for any other value. */
export function asFile(value: unknown): FileValue | undefined {
  if (typeof value !== "object" || value === null) {
    return undefined;
  }
  if ("$file" in value) {
    return asFile(value.$file);
  }
  // A sender can give an object the same members with values of any type.
  const given = value as Partial<Record<keyof FileValue, unknown>>;
  const isText = (member: unknown, needed = true) => typeof member === "string" || (!needed && member === undefined);
  const fits =
    isText(given.encoding) &&
    isText(given.contentType) &&
    typeof given.size === "number" &&
    isText(given.data, false) &&
    isText(given.filename, false);
  return fits ? (value as FileValue) : undefined;
}

/** The members of a payload without its body, which is shown apart. */
export const withoutBody = (payload: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(payload).filter(([name]) => name !== "body"));
