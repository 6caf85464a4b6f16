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
  return "encoding" in value && "contentType" in value && "size" in value ? (value as FileValue) : undefined;
}

/** The members of a payload without its body, which is shown apart. */
export const withoutBody = (payload: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(payload).filter(([name]) => name !== "body"));
