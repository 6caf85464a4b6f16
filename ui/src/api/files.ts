/** The files of the project. */

import { Problem, api, data } from "./client";
import type { FileChanged, FileErrors, ProjectFile } from "./types";

/** Reads a file. */
export const readFile = (path: string, signal?: AbortSignal): Promise<ProjectFile> =>
  data(api.GET("/api/v1/files/{path}", { params: { path: { path } }, ...(signal && { signal }) }));

/** The version that a write replaces: the one with this tag, or none. */
export type Replaces = { etag: string } | "nothing";

/** The result of a write: the tag of the new version, or the reason for which nothing was written. */
export type Written =
  | { kind: "written"; etag: string }
  /** The file is another one than expected; `current` is absent if it is gone. */
  | { kind: "changed"; current: ProjectFile | undefined }
  | { kind: "errors"; diagnostics: FileErrors["diagnostics"] };

/** Writes a file over the version that it replaces. Other failures are thrown. */
export async function writeFile(path: string, text: string, replaces: Replaces, withErrors = false): Promise<Written> {
  const headers = replaces === "nothing" ? { "if-none-match": "*" } : { "if-match": replaces.etag };
  try {
    const params = { path: { path }, query: { withErrors } };
    const { etag } = await data(api.PUT("/api/v1/files/{path}", { params, headers, body: { text } }));
    return { kind: "written", etag: etag ?? "" };
  } catch (error) {
    if (error instanceof Problem && error.status === 412) {
      return { kind: "changed", current: (error.body as FileChanged).current };
    }
    if (error instanceof Problem && error.code === "file_has_errors") {
      return { kind: "errors", diagnostics: (error.body as FileErrors).diagnostics };
    }
    throw error;
  }
}

/** Deletes the version of a file that has this tag. */
export async function deleteFile(path: string, etag: string): Promise<void> {
  await api.DELETE("/api/v1/files/{path}", { params: { path: { path } }, headers: { "if-match": etag } });
}
