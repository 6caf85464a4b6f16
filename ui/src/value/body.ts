/** The value that steps read as `trigger.results.body.data` of a recorded body, by the rules of the daemon. */

import type { FileValue } from "../api/types";
import { parse } from "./exact";

/** Text types outside `text/`. */
const TEXT = new Set([
  "application/csv",
  "application/graphql",
  "application/javascript",
  "application/x-ndjson",
  "application/xml",
  "application/yaml",
]);
/** The largest text that is read, in characters. */
const MOST = 8_000_000;

type Kind = "unknown" | "json" | "form" | "text" | "file";

/** The kind of a body with this content type. */
export function kindOf(contentType: string): Kind {
  const type = (contentType.split(";")[0] ?? "").trim().toLowerCase();
  if (type === "") {
    return "unknown";
  }
  if (type === "application/json") {
    return "json";
  }
  if (type === "application/x-www-form-urlencoded") {
    return "form";
  }
  if (type === "multipart/form-data" || type.startsWith("image/")) {
    return "file";
  }
  if (type.startsWith("text/") || TEXT.has(type) || type.endsWith("+xml")) {
    return "text";
  }
  return type.endsWith("+json") ? "json" : "file";
}

/** The value of a body; `undefined` where steps read it as a file, or as parts that are not shown here. */
export function bodyData(file: FileValue): { value: unknown } | undefined {
  const data = file.data ?? "";
  const kind = kindOf(file.contentType);
  if (file.encoding !== "utf8" || data.length > MOST || kind === "file") {
    return undefined;
  }
  if (kind === "text") {
    return { value: data.replace(/^\uFEFF/, "") };
  }
  if (kind === "form") {
    return { value: fields(data) };
  }
  const text = data.replace(/^\uFEFF/, "");
  if (kind === "unknown" && !/^\s*[{[]/.test(text)) {
    return undefined;
  }
  try {
    return { value: parse(text) };
  } catch {
    return undefined;
  }
}

/** The fields of a form; a name that is repeated has a list. */
function fields(data: string): Record<string, unknown> {
  const found = new Map<string, string | string[]>();
  for (const [name, value] of new URLSearchParams(data)) {
    const known = found.get(name);
    found.set(name, known === undefined ? value : Array.isArray(known) ? [...known, value] : [known, value]);
  }
  return Object.fromEntries(found);
}
