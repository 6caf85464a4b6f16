/**
 * The reader of the stream of news. It opens the stream again when it ends, is silent, or other topics are followed, and goes
 * on after the last event.
 */

import { Parser, type ServerEvent, delay } from "./sse";

/** The maximum number of topics that the daemon accepts for one stream. Further topics get no news. */
const MOST_TOPICS = 32;
/** The time without a sign of life after which the stream counts as broken, in milliseconds; the daemon sends one every 10 s. */
const SILENCE = 25_000;
/** The time in which changes of the followed topics are collected before the stream is opened again, in milliseconds. */
const SETTLE = 50;
/** Events that change nothing that is shown. After `dropped` the next stream begins with `resync`. */
const QUIET = ["closing", "dropped"];

/** The surroundings of the reader. */
export interface Surroundings {
  /** The topics that are followed now. */
  topics(): string[];
  /** Opens the stream of these topics after the event with the id `last`; `undefined` if it is refused. */
  open(topics: string[], last: string | undefined, signal: AbortSignal): Promise<ReadableStream<string> | undefined>;
  /** False ends the reader: there is no session. */
  isAllowed(): boolean;
  /** Receives each event that changes something. */
  event(event: ServerEvent): void;
  /** Reloads the shown resources of these topics, unless they were read after the instant `opened`; of all topics by default. */
  refresh(opened: number, topics?: string[]): void;
  /** Receives each sign of life, and each end of the stream. */
  state(connected: boolean): void;
}

export class StreamReader {
  /** The id of the last event, after which the next stream continues. */
  last: string | undefined;
  /** True while `read` runs. */
  isReading = false;
  /** The topics of the stream that is open, or was open last. */
  private streamed: string[] = [];
  /** The topics of the stream that is open or being opened. */
  private current: string[] = [];
  private again: (() => void) | undefined;
  private settling: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly around: Surroundings) {}

  /** Opens the stream again once the followed topics have settled, if they have changed. */
  settle(): void {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      const topics = this.topics();
      if (topics.length !== this.current.length || topics.some((topic) => !this.current.includes(topic))) {
        this.again?.();
      }
    }, SETTLE);
  }

  private topics(): string[] {
    return [...new Set(this.around.topics())].slice(0, MOST_TOPICS);
  }

  /** Reads the stream until `signal` is aborted, and opens it again when it ends. */
  async read(signal: AbortSignal): Promise<void> {
    this.isReading = true;
    let failures = 0;
    while (!signal.aborted && this.around.isAllowed()) {
      const restart = new AbortController();
      let wanted = false;
      this.again = () => {
        wanted = true;
        restart.abort();
      };
      const opened = await this.once(AbortSignal.any([signal, restart.signal])).catch(() => false);
      if (wanted) {
        continue;
      }
      failures = opened ? 1 : failures + 1;
      this.around.state(false);
      if (signal.aborted) {
        break;
      }
      await new Promise<void>((done) => {
        const timer = setTimeout(done, delay(failures, Math.random()));
        this.again = () => (clearTimeout(timer), done());
        signal.addEventListener("abort", () => this.again?.(), { once: true });
      });
    }
    this.isReading = false;
    this.again = undefined;
  }

  /** Reads one stream to its end. True if it was opened. */
  private async once(signal: AbortSignal): Promise<boolean> {
    const topics = (this.current = this.topics());
    const silence = new AbortController();
    const body = await this.around.open(topics, this.last, AbortSignal.any([signal, silence.signal]));
    if (!body) {
      return false;
    }
    this.around.state(true);
    // The stream continues after the last event of the previous topics: news of the others may have come between their first read and now.
    const added = topics.filter((topic) => !this.streamed.includes(topic));
    this.streamed = topics;
    const opened = Date.now();
    if (added.length > 0) {
      this.around.refresh(opened, added);
    }
    const parser = new Parser();
    const reader = body.getReader();
    let timer = setTimeout(() => silence.abort(), SILENCE);
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE);
        this.around.state(true);
        parser.add(part.value).forEach((event) => this.receive(event, opened));
      }
    } catch {
      // Broken, silent, or opened again: the caller knows.
    } finally {
      clearTimeout(timer);
    }
    return true;
  }

  private receive(event: ServerEvent, opened: number): void {
    this.last = event.id ?? this.last;
    // Pages may have read before the stream was open: `open` says that news before it are not known.
    if (event.name === "open") {
      this.around.refresh(opened);
    } else if (event.name === "resync") {
      this.around.refresh(Date.now());
    } else if (!QUIET.includes(event.name)) {
      this.around.event(event);
    }
  }
}
