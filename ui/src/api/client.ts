/** Requests to the API. The cookie of the session goes with them, and its second secret in a header. */

import createClient, { type Middleware } from "openapi-fetch";

import { parse } from "../value/exact";
import type { paths } from "./schema";

const SECRET = "cogwork-session";
/** The header with the second secret of the session. */
const HEADER = "x-cogwork-session";
/** The codes of the problems that end the session. */
const OVER = ["unauthorized", "session_over", "session_header_missing"];

/** An error of the API (RFC 9457), or of the way to it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    /** The whole answer: some problems have further members. */
    readonly body: unknown = undefined,
  ) {
    super(detail);
  }
}

/** Receives each problem that ends the session. */
export const session = { over: () => {} };

export function secret(): string | null {
  return localStorage.getItem(SECRET);
}

export function keepSecret(value: string | null): void {
  if (value === null) {
    localStorage.removeItem(SECRET);
  } else {
    localStorage.setItem(SECRET, value);
  }
}

/** The fields of every request. */
export function fields(): Record<string, string> {
  return { [HEADER]: secret() ?? "" };
}

const problems: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(fields())) {
      request.headers.set(name, value);
    }
  },
  async onResponse({ request, response, options }) {
    if (response.status === 304) {
      return;
    }
    if (response.ok) {
      return options.parseAs === "json" && response.status !== 204 ? exactly(response) : undefined;
    }
    const body = (await response.json().catch(() => ({}))) as { code?: string; detail?: string };
    // A late response to a request of the previous session does not end the session that a login in another tab has begun.
    if (OVER.includes(body.code ?? "") && request.headers.get(HEADER) === fields()[HEADER]) {
      session.over();
    }
    throw new Problem(response.status, body.code ?? "unknown", body.detail ?? response.statusText, body);
  },
  onError({ request }) {
    return request.signal.aborted ? undefined : new Problem(0, "offline", "the daemon does not answer");
  },
};

/** The response with a body whose long integers are not rounded. */
async function exactly(response: Response): Promise<Response> {
  const text = await response.text();
  const made = new Response(text, { status: response.status, headers: response.headers });
  // The client reads the body by `json` if it knows the length, which is that of the body as it was sent, compressed or not.
  made.headers.set("content-length", String(text.length));
  made.json = async () => (text === "" ? undefined : parse(text));
  return made;
}

/** The operations of the API, with the types of the daemon's own description. A failure is thrown as a [`Problem`]. */
export const api = createClient<paths>();
api.use(problems);

/** The body of an answer. */
export async function data<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}

/** One segment of a path. */
export const segment = encodeURIComponent;
