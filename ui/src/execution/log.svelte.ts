/** The events of an execution, read page by page when they are needed. */

import { api, data } from "../api/client";
import type { EventPage, EventView } from "../api/types";

/** The most events that a page shows. */
const MOST = 50_000;

/** The events that are read at one time. */
const PAGE = 1000;

export class Log {
  events = $state.raw<EventView[]>([]);
  private reading: Promise<void> | undefined;

  constructor(private readonly id: string) {}

  /** Reads the events up to a number. Calls at the same time share one read. */
  read(total: number): Promise<void> {
    this.reading ??= this.more(Math.min(total, MOST)).finally(() => (this.reading = undefined));
    return this.reading;
  }

  private async more(total: number): Promise<void> {
    while (this.events.length < total) {
      const after = this.events.length;
      const params = { path: { id: this.id }, query: { after, limit: PAGE } };
      // The route also has a stream, whose events are texts: with `after` it answers with a page.
      const page = (await data(api.GET("/api/v1/executions/{id}/events", { params }))) as EventPage;
      if (page.events.length === 0) {
        return;
      }
      this.events = [...this.events, ...page.events];
    }
  }
}
