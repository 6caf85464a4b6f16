/** Payloads of requests: from the rows of a form to the form that the API takes, and back. */

import type { FileValue, StartPayload } from "../api/types";
import { fromBase64, toBase64 } from "../value/base64";
import { asFile } from "../value/file";

export interface Row {
  name: string;
  value: string;
}

/** A file that was chosen from the disk, in base64. */
export interface Upload {
  name: string;
  type: string;
  size: number;
  base64: string;
}

export interface Part {
  name: string;
  kind: "text" | "json" | "file";
  value: string;
  upload?: Upload;
}

export type BodyKind = "none" | "json" | "form" | "multipart" | "xml" | "text" | "file";

/** A request while it is edited. */
export interface Draft {
  method: string;
  path: string;
  query: Row[];
  headers: Row[];
  kind: BodyKind;
  /** The body of JSON, XML and text. */
  text: string;
  fields: Row[];
  parts: Part[];
  upload?: Upload;
  /** The content type, where it is not the usual one of the kind. */
  contentType: string;
}

/** A request as `payload` of a start. */
export interface RequestPayload {
  method: string;
  path: string;
  query: Record<string, string | string[]>;
  headers: Record<string, string | string[]>;
  body?: string | { $file: FileValue };
}

export const KINDS: [BodyKind, string, string][] = [
  ["json", "JSON", "application/json"],
  ["form", "Form", "application/x-www-form-urlencoded"],
  ["multipart", "Multipart form with files", "multipart/form-data"],
  ["xml", "XML", "application/xml"],
  ["text", "Text", "text/plain; charset=utf-8"],
  ["file", "Binary file", "application/octet-stream"],
  ["none", "None", ""],
];

export function emptyDraft(method = "POST"): Draft {
  return { method, path: "", query: [], headers: [], kind: "json", text: "{}", fields: [], parts: [], contentType: "" };
}

/** The rows as an object; a name that occurs several times has a list. */
function gathered(rows: Row[]): Record<string, string | string[]> {
  const found: Record<string, string | string[]> = Object.create(null);
  for (const { name, value } of rows.filter((row) => row.name !== "")) {
    const before = found[name];
    found[name] = before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value];
  }
  return { ...found };
}

export function usualType(kind: BodyKind): string {
  return KINDS.find(([one]) => one === kind)?.[2] ?? "";
}

/** A name inside a header of a part: quotes and line ends are escaped as browsers do (HTML, multipart/form-data). */
const quoted = (name: string): string => name.replace(/"/g, "%22").replace(/\r/g, "%0D").replace(/\n/g, "%0A");

/** The bytes of a multipart form (RFC 7578). */
export function multipart(parts: Part[], boundary: string): Uint8Array {
  const encoder = new TextEncoder();
  const pieces: Uint8Array[] = [];
  for (const part of parts.filter(({ name }) => name !== "")) {
    let head = `--${boundary}\r\ncontent-disposition: form-data; name="${quoted(part.name)}"`;
    if (part.kind === "file") {
      head += `; filename="${quoted(part.upload?.name ?? "file")}"\r\ncontent-type: ${part.upload?.type || "application/octet-stream"}`;
    } else if (part.kind === "json") {
      head += "\r\ncontent-type: application/json";
    }
    pieces.push(encoder.encode(`${head}\r\n\r\n`));
    pieces.push(part.kind === "file" ? fromBase64(part.upload?.base64 ?? "") : encoder.encode(part.value));
    pieces.push(encoder.encode("\r\n"));
  }
  pieces.push(encoder.encode(`--${boundary}--\r\n`));
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** A boundary that no part contains. */
function boundaryFor(parts: Part[]): string {
  const all = parts.map((part) => part.value + atob(part.upload?.base64 ?? "")).join("");
  let boundary = "cogwork-boundary";
  for (let count = 1; all.includes(boundary); count += 1) {
    boundary = `cogwork-boundary-${count}`;
  }
  return boundary;
}

/** The draft as the API takes it. */
export function toPayload(draft: Draft): RequestPayload {
  const headers = gathered(draft.headers);
  const hasType = Object.keys(headers).some((name) => name.toLowerCase() === "content-type");
  const payload: RequestPayload = { method: draft.method, path: draft.path, query: gathered(draft.query), headers };
  const type = (standard: string) => {
    if (!hasType) {
      headers["content-type"] = draft.contentType || standard;
    }
  };
  const usual = usualType(draft.kind);
  if (draft.kind === "json" || draft.kind === "xml" || draft.kind === "text") {
    type(usual);
    payload.body = draft.text;
  } else if (draft.kind === "form") {
    type(usual);
    payload.body = new URLSearchParams(
      draft.fields.filter(({ name }) => name !== "").map(({ name, value }): [string, string] => [name, value]),
    ).toString();
  } else if (draft.kind === "multipart") {
    const boundary = boundaryFor(draft.parts);
    const bytes = multipart(draft.parts, boundary);
    const contentType = `${usual}; boundary=${boundary}`;
    headers["content-type"] = contentType;
    payload.body = { $file: { contentType, size: bytes.length, encoding: "base64", data: toBase64(bytes) } };
  } else if (draft.kind === "file" && draft.upload) {
    const contentType = draft.contentType || draft.upload.type || usual;
    type(contentType);
    payload.body = {
      $file: { contentType, size: draft.upload.size, encoding: "base64", data: draft.upload.base64 },
    };
  }
  return payload;
}

const rows = (values: unknown): Row[] =>
  Object.entries((values ?? {}) as Record<string, unknown>).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) => ({ name, value: String(one) })),
  );

/** The draft of a request that was captured or saved. Its bytes stay as they are: a multipart form as a file. */
export function fromPayload(payload: StartPayload): Draft {
  const body = asFile(payload.body);
  const headers = rows(payload.headers);
  const sent = headers.find(({ name }) => name.toLowerCase() === "content-type")?.value ?? body?.contentType ?? "";
  const media = sent.split(";")[0]?.trim().toLowerCase() ?? "";
  const draft: Draft = {
    ...emptyDraft(payload.method),
    path: payload.pathFragment ?? payload.path ?? "",
    query: rows(payload.queryParameters ?? payload.query),
    headers: headers.filter(({ name }) => !["content-type", "content-length", "host"].includes(name.toLowerCase())),
    contentType: sent,
  };
  if (!body || body.size === 0) {
    return { ...draft, kind: "none" };
  }
  if (body.encoding === "utf8" && media === "application/x-www-form-urlencoded") {
    const fields = [...new URLSearchParams(body.data ?? "")].map(([name, value]) => ({ name, value }));
    return { ...draft, kind: "form", fields };
  }
  if (body.encoding === "utf8" && media !== "multipart/form-data") {
    const kind = /[/+]json$/.test(media) ? "json" : /[/+]xml$/.test(media) ? "xml" : "text";
    return { ...draft, kind, text: body.data ?? "" };
  }
  const base64 = body.encoding === "utf8" ? toBase64(new TextEncoder().encode(body.data)) : (body.data ?? "");
  return { ...draft, kind: "file", upload: { name: "the body as it came", type: sent, size: body.size, base64 } };
}

/** The problem of the text of a body, before it is sent; empty if it is valid. */
export function bodyProblem(draft: Draft): string {
  if (draft.kind === "json" && draft.text.trim() !== "") {
    try {
      JSON.parse(draft.text);
    } catch (error) {
      return `not JSON: ${(error as Error).message}`;
    }
  }
  for (const part of draft.kind === "multipart" ? draft.parts : []) {
    if (part.kind === "json") {
      try {
        JSON.parse(part.value);
      } catch (error) {
        return `part ${part.name} is not JSON: ${(error as Error).message}`;
      }
    }
  }
  return draft.kind === "file" && !draft.upload ? "no file is chosen" : "";
}

/** A text in single quotes of a POSIX shell. */
const shell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** A command that sends an example to an address. */
export function curl(address: string, method = "POST"): string {
  const body = method === "GET" ? "" : ` -H 'content-type: application/json' -d '{}'`;
  return `curl -i -X ${method} ${shell(address)}${body}`;
}
