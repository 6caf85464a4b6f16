/** Requests whose paths are made at run time; the typed client is `client.ts`. */

import { Problem, fields, session } from "./client";

/** The codes of the problems that end the session. */
const OVER = ["unauthorized", "session_over", "session_header_missing"];

/** Sends a request, and returns the JSON of its answer. `seen` receives the answer before it is read. */
export async function send<T>(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
  extra: Record<string, string> = {},
  seen: (response: Response) => void = () => {},
): Promise<T> {
  const headers = { ...fields(), ...extra };
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
  seen(response);
  if (response.ok) {
    return (response.status === 204 ? undefined : await response.json()) as T;
  }
  const problem = (await response.json().catch(() => ({}))) as { code?: string; detail?: string };
  if (OVER.includes(problem.code ?? "")) {
    session.over();
  }
  throw new Problem(response.status, problem.code ?? "unknown", problem.detail ?? response.statusText, problem);
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => send<T>("GET", path, undefined, signal);
