/** The drafts of files, in the storage of the browser. */

import type { ProjectFile } from "../api/types";
import type { Rename } from "./renames";

export interface Draft extends Pick<ProjectFile, "text" | "etag"> {
  /** The text that the draft began with. */
  base: string;
  /** The steps that were renamed in it. */
  renames?: Rename[];
}

/** The key of the draft of a file. With ` tab` behind it, it names the tab that the draft belongs to. */
export const draftKey = (path: string): string => `cogwork-draft ${path}`;

/** The draft of a file; `undefined` if there is none. */
export function readDraft(path: string): Draft | undefined {
  try {
    return JSON.parse(localStorage.getItem(draftKey(path)) ?? "") as Draft;
  } catch {
    return undefined;
  }
}
