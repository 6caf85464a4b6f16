/** The draft of a file that the form of a trigger edits: the one buffer of the file, with undo where no editor is shown. */

import { api, data } from "../api/client";
import type { Resource } from "../api/resource.svelte";
import type { Graph, LineRange, Operation, ProjectFile } from "../api/types";
import { type Buffer, type Edit, openBuffer } from "../editor/buffer.svelte";
import type { Json } from "./trigger";

/** Maximum number of edits that can be undone. */
const MOST_UNDONE = 100;

export class TriggerDraft {
  readonly buffer: Buffer;
  /** The file on disk. */
  readonly file: Resource<ProjectFile>;
  private earlier = $state<string[]>([]);

  /** Belongs to the component that calls it. `shared` is the buffer of a page that edits the same file. */
  constructor(
    readonly path: string,
    shared?: { buffer: Buffer; file: Resource<ProjectFile> },
  ) {
    const { buffer, file } = shared ?? openBuffer(path);
    [this.buffer, this.file] = [buffer, file];
  }

  get canUndo(): boolean {
    return this.earlier.length > 0;
  }
  /** The lines of the trigger in the last text that could be read. */
  get lines(): LineRange | undefined {
    return this.graph?.triggers[0]?.span;
  }
  /** The graph of the last text that could be read. */
  get graph(): Graph | undefined {
    return this.buffer.structure?.checked.graph;
  }
  /** The data of the last text that could be read. */
  get data(): Json | undefined {
    return this.buffer.structure?.checked.data as Json | undefined;
  }

  /** Applies operations in place. No other byte of the text changes. */
  apply = async (operations: Edit): Promise<void> => {
    const before = await this.buffer.edit(operations);
    if (this.buffer.text !== before) {
      this.earlier = [...this.earlier.slice(1 - MOST_UNDONE), before];
    }
  };

  /** The changes that operations would make, with the diagnostics of the changed text. */
  preview = (operations: Operation[]) =>
    data(api.POST("/api/v1/edit", { body: { path: this.path, text: this.buffer.text ?? "", operations } }));

  undo = async (): Promise<void> => {
    const before = this.earlier.at(-1);
    if (before !== undefined) {
      this.earlier = this.earlier.slice(0, -1);
      this.buffer.changed(before);
      await this.buffer.check(before);
    }
  };
}
