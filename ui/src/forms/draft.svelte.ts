/** The draft of a file that the form of a trigger edits: the one buffer of the file, with undo where no editor is shown. */

import { send } from "../api/request";
import type { Diagnostic } from "../api/types";
import { Buffer, readFile } from "../editor/buffer.svelte";
import type { Change } from "../editor/types";
import type { Json, Operation } from "./trigger";

/** The most edits that can be undone. */
const MOST_UNDONE = 100;

export class TriggerDraft {
  readonly buffer: Buffer;
  failure = $state<unknown>();
  private earlier = $state<string[]>([]);

  constructor(readonly path: string) {
    this.buffer = new Buffer(path);
  }

  get canUndo(): boolean {
    return this.earlier.length > 0;
  }
  /** The data of the last text that could be read. */
  get data(): Json | undefined {
    return this.buffer.structure?.checked.data as Json | undefined;
  }

  load = async (signal: AbortSignal): Promise<void> => {
    try {
      this.buffer.arrive(await readFile(this.path, signal));
      this.failure = undefined;
    } catch (error) {
      if (!signal.aborted) {
        this.failure = error;
      }
    }
  };

  /** Applies operations in place. No other byte of the text changes. */
  apply = async (operations: Operation[]): Promise<void> => {
    const before = this.buffer.text ?? "";
    await this.buffer.edit(operations);
    if (this.buffer.text !== before) {
      this.earlier = [...this.earlier.slice(1 - MOST_UNDONE), before];
    }
  };

  /** The changes that operations would make, with the diagnostics of the changed text. */
  preview = (operations: Operation[]): Promise<{ changes: Change[]; diagnostics: Diagnostic[] }> =>
    send("POST", "/edit", { path: this.path, text: this.buffer.text, operations });

  undo = async (): Promise<void> => {
    const before = this.earlier.at(-1);
    if (before !== undefined) {
      this.earlier = this.earlier.slice(0, -1);
      this.buffer.changed(before);
      await this.buffer.check(before);
    }
  };
}
