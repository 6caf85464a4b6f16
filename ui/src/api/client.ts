/** Requests to the API. The cookie of the session goes with them, and its second secret in a header. */

const SECRET = "cogwork-session";

/** An error of the API (RFC 9457), or of the way to it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
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
  return { "x-cogwork-session": secret() ?? "" };
}

/** Sends a request, and returns the JSON of its answer. */
export async function api<T>(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const headers = fields();
  if (body !== undefined) {
    headers["content-type"] = "application/json";
  }
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      headers,
      signal: signal ?? null,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new Problem(0, "offline", "the daemon does not answer");
  }
  if (response.ok) {
    return (response.status === 204 ? undefined : await response.json()) as T;
  }
  const problem = (await response.json().catch(() => ({}))) as { code?: string; detail?: string };
  if (problem.code === "unauthorized" || problem.code === "session_over" || problem.code === "session_header_missing") {
    session.over();
  }
  throw new Problem(response.status, problem.code ?? "unknown", problem.detail ?? response.statusText);
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => api<T>("GET", path, undefined, signal);

/** One segment of a path. */
export const segment = encodeURIComponent;
