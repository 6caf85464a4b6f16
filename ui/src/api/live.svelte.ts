/** The live state of the daemon: a counter that pages watch to read anew, fed by the stream of events. */

import { fields, secret } from "./client";

const FIRST_DELAY = 500;
const LONGEST_DELAY = 30_000;
/** The shortest time between two reads of a page, in milliseconds. */
const PACE = 400;

class Live {
  /** Rises when something has changed. */
  changes = $state(0);
  /** True while the stream is open. */
  connected = $state(false);
  /** The time of the last news. */
  lastNews = $state(Date.now());
  private due: ReturnType<typeof setTimeout> | undefined;

  /** Reads the stream until `signal` is aborted, and opens it again when it breaks. */
  async run(signal: AbortSignal): Promise<void> {
    let delay = FIRST_DELAY;
    while (!signal.aborted && secret() !== null) {
      try {
        const response = await fetch("/api/v1/events", { headers: fields(), signal });
        if (response.ok && response.body) {
          this.connected = true;
          delay = FIRST_DELAY;
          this.news();
          const reader = response.body.getReader();
          for (let part = await reader.read(); !part.done; part = await reader.read()) {
            this.news();
          }
        }
      } catch {
        // The daemon has ended, or the network has: tried again below.
      }
      this.connected = false;
      await new Promise((done) => setTimeout(done, delay));
      delay = Math.min(delay * 2, LONGEST_DELAY);
    }
  }

  private news(): void {
    this.lastNews = Date.now();
    this.due ??= setTimeout(() => {
      this.due = undefined;
      this.changes += 1;
    }, PACE);
  }
}

export const live = new Live();
