/** The events of an execution, read page by page when they are needed. */

import { get } from "../api/request";
import type { EventView } from "./model";

/** The most events that a page shows. */
const MOST = 50_000;

export class Log {
  events = $state.raw<EventView[]>([]);
  private reading: Promise<void> | undefined;

  constructor(private readonly path: string) {}

  /** Reads the events up to a number. Calls at the same time share one read. */
  read(total: number): Promise<void> {
    this.reading ??= this.more(Math.min(total, MOST)).finally(() => (this.reading = undefined));
    return this.reading;
  }

  private async more(total: number): Promise<void> {
    while (this.events.length < total) {
      const after = this.events.length;
      const page = await get<{ events: EventView[] }>(`${this.path}/events?after=${after}&limit=1000`);
      if (page.events.length === 0) {
        return;
      }
      this.events = [...this.events, ...page.events];
    }
  }
}
