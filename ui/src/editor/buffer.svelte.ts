/**
 * The text of a project file in the browser. It is the state: editor, graph and forms are views of it, and of the last check
 * of it by the daemon. A draft is kept in the storage of the browser; it belongs to the tab that opened the file last.
 */

import { Problem, fields, segment } from "../api/client";
import { get, send } from "../api/request";
import type { Diagnostic } from "../api/types";
import { applied, stepAt } from "./outline";
import type { Change, Checked, EditorHandle, Operation, OutlineStep } from "./types";

export interface FileText {
  text: string;
  etag: string;
}
interface Draft extends FileText {
  /** The text that the draft began with. */
  base: string;
}
interface WriteAnswer {
  etag?: string;
  detail?: string;
  code?: string;
  current?: FileText;
  diagnostics?: Diagnostic[];
}

/** This tab among those of the browser. */
const TAB = [...crypto.getRandomValues(new Uint32Array(2))].join("-");

export class Buffer {
  text = $state<string>();
  base = $state<FileText>();
  /** The version on disk, if it is a later one than the draft began with. */
  theirs = $state<FileText>();
  problems = $state.raw<Diagnostic[]>([]);
  /** The structure of the last text that parsed, and that text. */
  structure = $state.raw<{ text: string; checked: Checked }>();
  said = $state("");
  failure = $state<unknown>();
  /** True if another tab has opened the file since. */
  elsewhere = $state(false);
  /** The editor, while it is shown. */
  editor: EditorHandle | undefined;
  private checking: AbortController | undefined;
  private readonly key: string;

  constructor(readonly path: string) {
    this.key = `cogwork-draft ${path}`;
  }

  get isChanged(): boolean {
    return this.base !== undefined && this.text !== undefined && this.text !== this.base.text;
  }
  get errors(): number {
    return this.problems.filter((one) => one.severity === "error").length;
  }
  /** True if graph and forms show an earlier text than the editor. */
  get isBehind(): boolean {
    return this.structure !== undefined && this.structure.text !== this.text;
  }
  get outline(): OutlineStep[] {
    return this.structure?.checked.outline ?? [];
  }

  /** Takes the draft of the file for this tab, and watches for others that take it. Returns what ends that. */
  own(): () => void {
    localStorage.setItem(`${this.key} tab`, TAB);
    this.elsewhere = false;
    const changed = (event: StorageEvent) => {
      if (event.key === `${this.key} tab`) {
        this.elsewhere = event.newValue !== null && event.newValue !== TAB;
      }
    };
    addEventListener("storage", changed);
    return () => removeEventListener("storage", changed);
  }

  /** Receives the file as it is on disk. */
  arrive(found: FileText): void {
    if (this.base === undefined) {
      const draft = this.draft();
      this.base = draft ? { text: draft.base, etag: draft.etag } : found;
      this.text = draft?.text ?? found.text;
      this.said = draft ? "This is the draft that you had not saved." : "";
      void this.check(this.text).catch(() => {});
    }
    if (found.etag === this.base.etag) {
      this.theirs = undefined;
    } else if (this.text === this.base.text || this.text === found.text) {
      [this.base, this.text, this.theirs] = [found, found.text, undefined];
      void this.check(found.text).catch(() => {});
    } else {
      this.theirs = found;
    }
  }

  private draft(): Draft | undefined {
    try {
      return JSON.parse(localStorage.getItem(this.key) ?? "") as Draft;
    } catch {
      return undefined;
    }
  }

  changed(now: string): void {
    this.text = now;
    this.said = "";
    if (this.elsewhere || !this.base) {
      return;
    }
    if (now === this.base.text) {
      localStorage.removeItem(this.key);
    } else {
      localStorage.setItem(this.key, JSON.stringify({ text: now, base: this.base.text, etag: this.base.etag } satisfies Draft));
    }
  }

  /** Asks the daemon about a text. The newest text wins. */
  async check(now: string): Promise<Diagnostic[]> {
    this.checking?.abort();
    const own = new AbortController();
    this.checking = own;
    try {
      const body = { path: this.path, text: now, include: ["graph", "outline", "references", "data"] };
      const checked = await send<Checked>("POST", "/validate", body, own.signal);
      this.problems = checked.diagnostics;
      if (checked.outline) {
        this.structure = { text: now, checked };
      }
    } catch {
      // Without the daemon, or behind a newer text, the last problems stay.
    }
    return this.problems;
  }

  /** Changes the text by operations; every other byte of it stays. */
  async edit(operations: Operation[]): Promise<void> {
    const text = this.text ?? "";
    const answer = await send<{ changes: Change[] }>("POST", "/edit", { path: this.path, text, operations });
    if (this.text !== text) {
      throw new Problem(409, "text_changed", "the text was changed meanwhile; try again");
    }
    if (this.editor) {
      this.editor.apply(answer.changes);
    } else {
      this.changed(applied(text, answer.changes));
    }
    await this.check(this.text ?? "");
  }

  /** Takes a version in place of the draft. */
  take(found: FileText, words: string): void {
    [this.base, this.text, this.theirs, this.said] = [found, found.text, undefined, words];
    localStorage.removeItem(this.key);
    void this.check(found.text).catch(() => {});
  }

  /** Writes the text over the version with this tag. True if it is written. */
  async write(etag: string, withErrors: boolean): Promise<boolean> {
    const sent = this.text ?? "";
    const response = await fetch(`/api/v1/files/${segment(this.path)}${withErrors ? "?withErrors=true" : ""}`, {
      method: "PUT",
      headers: { ...fields(), "content-type": "application/json", "if-match": etag },
      body: JSON.stringify({ text: sent }),
    }).catch(() => undefined);
    const answer = (await response?.json().catch(() => ({}))) as WriteAnswer | undefined;
    this.failure = undefined;
    if (response?.ok && answer?.etag) {
      const isTyped = this.text !== sent;
      const typed = this.text;
      this.take({ text: sent, etag: answer.etag }, withErrors ? "Saved; the last good version stays in force." : "Saved, and in force.");
      if (isTyped && typed !== undefined) {
        this.changed(typed);
      }
      return true;
    }
    if (response?.status === 412 && answer?.current) {
      this.theirs = answer.current;
    } else if (answer?.code === "file_has_errors") {
      this.problems = answer.diagnostics ?? [];
    } else {
      this.failure = new Problem(response?.status ?? 0, answer?.code ?? "offline", answer?.detail ?? "the daemon does not answer");
    }
    return false;
  }

  /** The step that holds an offset. */
  stepAt(offset: number): OutlineStep | undefined {
    return stepAt(this.outline, offset);
  }
}

/** Reads a file of the project. */
export const readFile = (path: string, signal: AbortSignal): Promise<FileText> => get(`/files/${segment(path)}`, signal);
