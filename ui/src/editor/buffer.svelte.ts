/**
 * The text of a project file in the browser. It is the state: editor, graph and forms are views of it, and of the last check
 * of it by the daemon. A draft is kept in the storage of the browser; it belongs to the tab that opened the file last.
 */

import { untrack } from "svelte";

import { Problem, api, data } from "../api/client";
import { readFile, writeFile } from "../api/files";
import { Resource, readAtNews } from "../api/resource.svelte";
import type { Checked, Diagnostic, Operation, OutlineStep, ProjectFile } from "../api/types";
import { countChanges } from "./changes";
import { type Draft, draftKey, readDraft } from "./drafts";
import { applied, stepAt } from "./outline";
import { type Rename, type TestChange, holding, testChanges, withRename, writeTests } from "./renames";
import type { EditorHandle } from "./types";

/** Operations on the text, or a function that makes them when earlier edits are done. */
export type Edit = Operation[] | (() => Operation[]);

export type FileText = Pick<ProjectFile, "text" | "etag">;

/** This tab among those of the browser. */
const TAB = [...crypto.getRandomValues(new Uint32Array(2))].join("-");

export class Buffer {
  text = $state<string>();
  base = $state<FileText>();
  /** The version on disk, if it is a later one than the draft began with. */
  theirs = $state<FileText>();
  problems = $state.raw<Diagnostic[]>([]);
  /** The text that the problems are of. */
  private judged = $state.raw<string>();
  /** The structure of the last text that parsed, and that text. */
  structure = $state.raw<{ text: string; checked: Checked }>();
  said = $state("");
  failure = $state<unknown>();
  /** True if another tab has opened the file since. */
  elsewhere = $state(false);
  /** The steps that were renamed since the text was saved. */
  private renames: Rename[] = [];
  /** The editor, while it is shown. */
  editor: EditorHandle | undefined;
  /** The check that runs, and its text. */
  private checking: { text: string; stop: AbortController; done: Promise<void> } | undefined;
  /** The end of the last edit. */
  private editing: Promise<unknown> = Promise.resolve();
  private readonly key: string;

  constructor(readonly path: string) {
    this.key = draftKey(path);
  }

  get isChanged(): boolean {
    return this.base !== undefined && this.text !== undefined && this.text !== this.base.text;
  }
  /** The number of places at which the text differs from the saved one. */
  get changes(): number {
    return this.isChanged ? countChanges(this.base?.text ?? "", this.text ?? "") : 0;
  }
  /** True if the problems are those of the text as it is now. */
  get isJudged(): boolean {
    return this.judged === this.text;
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
      const draft = readDraft(this.path);
      this.base = draft ? { text: draft.base, etag: draft.etag } : found;
      this.text = draft?.text ?? found.text;
      this.said = draft ? "This is the draft that you had not saved." : "";
      this.renames = draft?.renames ?? [];
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

  changed(now: string): void {
    this.text = now;
    this.said = "";
    if (this.elsewhere || !this.base) {
      return;
    }
    if (now === this.base.text) {
      localStorage.removeItem(this.key);
    } else {
      localStorage.setItem(this.key, JSON.stringify({ text: now, base: this.base.text, etag: this.base.etag, renames: this.renames } satisfies Draft));
    }
  }

  /** Validates a text in the daemon. The newest text wins, and a text has one request at a time. */
  async check(now: string): Promise<Diagnostic[]> {
    if (this.checking?.text !== now) {
      this.checking?.stop.abort();
      const stop = new AbortController();
      this.checking = { text: now, stop, done: this.ask(now, stop.signal) };
    }
    const own = this.checking;
    await own.done;
    if (this.checking === own) {
      this.checking = undefined;
    }
    return this.problems;
  }

  private async ask(now: string, signal: AbortSignal): Promise<void> {
    try {
      const include = ["graph" as const, "outline" as const, "references" as const, "data" as const];
      const body = { path: this.path, text: now, include };
      const checked = await data(api.POST("/api/v1/validate", { body, signal }));
      [this.problems, this.judged] = [checked.diagnostics, now];
      if (checked.outline) {
        this.structure = { text: now, checked };
      }
    } catch {
      // Without the daemon, or behind a newer text, the last problems stay.
    }
  }

  /** Changes the text by operations; every other byte of it stays. An edit begins when the one before has ended. Returns the text before. */
  edit(operations: Edit): Promise<string> {
    const edit = this.editing.then(() => this.editNow(typeof operations === "function" ? operations() : operations));
    this.editing = edit.catch(() => {});
    return edit;
  }

  private async editNow(operations: Operation[]): Promise<string> {
    const text = this.text ?? "";
    if (operations.length === 0) {
      return text;
    }
    const answer = await data(api.POST("/api/v1/edit", { body: { path: this.path, text, operations } }));
    if (this.text !== text) {
      throw new Problem(409, "text_changed", "the text was changed meanwhile; try again");
    }
    if (this.editor) {
      this.editor.apply(answer.changes);
    } else {
      this.changed(applied(text, answer.changes));
    }
    await this.check(this.text ?? "");
    return text;
  }

  /** Renames a step with everything in the file that names it; the tests beside it follow when the file is saved. */
  async rename(from: string, to: string): Promise<void> {
    const earlier = this.renames;
    this.renames = withRename(earlier, { from, to });
    try {
      await this.edit([{ op: "renameStep", from, to }]);
    } catch (error) {
      this.renames = earlier;
      throw error;
    }
  }

  /** The changes of the tests beside the automation that follow renamed steps. */
  async tests(automation: string): Promise<TestChange[]> {
    if (this.isBehind) {
      await this.check(this.text ?? "");
    }
    return testChanges(this.path, automation, holding(this.renames, this.outline.map((one) => one.id)));
  }

  /** Takes a version in place of the draft. */
  take(found: FileText, words: string): void {
    this.renames = [];
    [this.base, this.text, this.theirs, this.said] = [found, found.text, undefined, words];
    localStorage.removeItem(this.key);
    void this.check(found.text).catch(() => {});
  }

  /** Writes the text over the version with this tag, and then the tests that follow it. True if the text is written. */
  async write(etag: string, withErrors: boolean, following?: Promise<TestChange[]>): Promise<boolean> {
    let tests: TestChange[] = [];
    try {
      tests = (await following) ?? [];
    } catch (error) {
      this.failure = error;
      return false;
    }
    const sent = this.text ?? "";
    this.failure = undefined;
    try {
      const result = await writeFile(this.path, sent, { etag }, withErrors);
      if (result.kind === "changed" && result.current) {
        this.theirs = result.current;
      } else if (result.kind === "errors") {
        [this.problems, this.judged] = [result.diagnostics, sent];
      } else if (result.kind === "written") {
        const typed = this.text;
        this.take({ text: sent, etag: result.etag }, withErrors ? "Saved; the last good version stays in force." : "Saved, and in force.");
        if (typed !== undefined && typed !== sent) {
          this.changed(typed);
        }
        await this.follow(tests);
        return true;
      } else {
        this.failure = new Error("The file is gone. Discard the draft, or create the file again with its text.");
      }
    } catch (error) {
      this.failure = error;
    }
    return false;
  }

  /** Writes the tests that follow the saved file. */
  private async follow(tests: TestChange[]): Promise<void> {
    try {
      await writeTests(tests);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.failure = new Error(`The file is saved. Its tests still name the step as before: ${reason}`);
    }
  }

  /** The step that holds an offset. */
  stepAt(offset: number): OutlineStep | undefined {
    return stepAt(this.outline, offset);
  }
}

/** The buffer of a file, for as long as the component that calls it is shown: it follows the file on disk. */
export function openBuffer(path: string): { buffer: Buffer; file: Resource<ProjectFile> } {
  const buffer = new Buffer(path);
  const file = new Resource((signal) => readFile(path, signal));
  readAtNews(file, () => ["catalog"]);
  $effect(() => untrack(() => buffer.own()));
  $effect(() => {
    const found = file.data;
    if (found) {
      untrack(() => buffer.arrive(found));
    }
  });
  return { buffer, file };
}
