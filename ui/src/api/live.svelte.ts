/**
 * The news of the daemon: one stream for all tabs of a browser, since HTTP/1.1 allows six connections to a host. The tab
 * that holds the lock reads the stream and passes it on; the others say what they follow. Where a browser has no locks
 * (plain HTTP to another host), each tab has a stream of its own while it is visible.
 */

import { ticker } from "../design/ticker.svelte";
import { fields, secret } from "./client";
import { type ServerEvent, concerns } from "./sse";
import { StreamReader } from "./stream";

/**
 * Receives news; `undefined` if some may be missing, so that everything has to be reloaded that was read before the instant
 * `opened`, in milliseconds since 1970.
 */
type Handler = (data: unknown, opened?: number) => void;

type Passed =
  | { kind: "event"; event: ServerEvent }
  | { kind: "resync"; opened: number; topics?: string[] }
  | { kind: "state"; connected: boolean; at: number }
  | { kind: "follows"; tab: string; topics: string[] }
  | { kind: "gone"; tab: string }
  | { kind: "who" };

const NAME = "cogwork-stream";
/** The topics that every tab follows: for the badge of the inbox and the state of the project. */
const ALWAYS = ["catalog", "executions"];
/** The time without news after which the daemon counts as gone, in milliseconds. */
const OFFLINE_AFTER = 3000;

/** The reason at a disabled control. */
export const OFFLINE = "the daemon does not answer";

class Live {
  /** True while the stream is open. */
  connected = $state(false);
  /** The time of the last news, or of the last sign of life. */
  lastNews = $state(Date.now());

  /** True while the daemon has not answered for some seconds. Controls that write are disabled then. */
  get offline(): boolean {
    return !this.connected && ticker.now - this.lastNews > OFFLINE_AFTER;
  }

  private readonly tab = Math.random().toString(36).slice(2);
  private readonly channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(NAME);
  private readonly handlers = new Map<string, Set<Handler>>();
  /** The topics that the other tabs follow, in the tab that reads the stream. */
  private readonly others = new Map<string, string[]>();
  private readonly reader = new StreamReader({
    topics: () => [...this.topics(), ...[...this.others.values()].flat()],
    open: async (topics, last, signal) => {
      const headers = { ...fields(), ...(last && { "last-event-id": last }) };
      const response = await fetch(`/api/v1/stream?topics=${encodeURIComponent(topics.join())}`, { headers, signal });
      return response.ok ? response.body?.pipeThrough(new TextDecoderStream()) : undefined;
    },
    isAllowed: () => secret() !== null,
    event: (event) => {
      this.send({ kind: "event", event });
      this.take(event);
    },
    refresh: (opened, topics) => {
      this.send({ kind: "resync", opened, ...(topics && { topics }) });
      this.refresh(topics, opened);
    },
    state: (connected) => this.state(connected),
  });

  /** Follows the news until `signal` is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const hear = (message: MessageEvent<Passed>) => this.hear(message.data);
    const leave = () => this.send({ kind: "gone", tab: this.tab });
    this.channel?.addEventListener("message", hear);
    addEventListener("pagehide", leave, { signal });
    signal.addEventListener("abort", () => this.channel?.removeEventListener("message", hear));
    this.tell();
    if (!navigator.locks || !this.channel) {
      await this.whileVisible(signal);
      return;
    }
    try {
      await navigator.locks.request(NAME, { signal }, async () => {
        this.send({ kind: "who" });
        await this.reader.read(signal);
      });
    } catch (error) {
      if (!signal.aborted) {
        throw error;
      }
    }
    leave();
  }

  /** Calls `handler` with the news of a topic, until the result is called. */
  follow(topic: string, handler: Handler): () => void {
    const handlers = this.handlers.get(topic) ?? new Set();
    handlers.add(handler);
    this.handlers.set(topic, handlers);
    if (handlers.size === 1) {
      this.tell();
    }
    return () => {
      handlers.delete(handler);
      if (handlers.size === 0) {
        this.handlers.delete(topic);
        this.tell();
      }
    };
  }

  private topics(): string[] {
    return [...new Set([...ALWAYS, ...this.handlers.keys()])];
  }

  /** Says what this tab follows. */
  private tell(): void {
    if (this.reader.isReading) {
      this.reader.settle();
    } else {
      this.send({ kind: "follows", tab: this.tab, topics: this.topics() });
    }
  }

  private send(message: Passed): void {
    this.channel?.postMessage(message);
  }

  private hear(message: Passed): void {
    if (message.kind === "event") {
      this.take(message.event);
    } else if (message.kind === "resync") {
      this.refresh(message.topics, message.opened);
    } else if (message.kind === "state") {
      [this.connected, this.lastNews] = [message.connected, message.at];
    } else if (message.kind === "who") {
      this.tell();
    } else if (this.reader.isReading && message.kind === "follows") {
      const before = this.others.get(message.tab);
      this.others.set(message.tab, message.topics);
      this.state(this.connected);
      if (before?.join() !== message.topics.join()) {
        this.reader.settle();
      }
    } else if (this.reader.isReading && message.kind === "gone" && this.others.delete(message.tab)) {
      this.reader.settle();
    }
  }

  private async whileVisible(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const hidden = new AbortController();
      const change = () => document.visibilityState === "hidden" && hidden.abort();
      document.addEventListener("visibilitychange", change);
      if (document.visibilityState !== "hidden") {
        await this.reader.read(AbortSignal.any([signal, hidden.signal]));
      }
      document.removeEventListener("visibilitychange", change);
      if (!signal.aborted && document.visibilityState === "hidden") {
        await new Promise((shown) => document.addEventListener("visibilitychange", shown, { once: true }));
      }
    }
  }

  private take(event: ServerEvent): void {
    this.reader.last = event.id ?? this.reader.last;
    for (const [topic, handlers] of this.handlers) {
      if (concerns(topic, event)) {
        handlers.forEach((handler) => handler(event.data));
      }
    }
  }

  /** Reloads the shown resources of these topics that were read before the instant `opened`; of all topics by default. */
  refresh(topics: string[] = [...this.handlers.keys()], opened = Date.now()): void {
    topics.forEach((topic) => this.handlers.get(topic)?.forEach((handler) => handler(undefined, opened)));
  }

  private state(connected: boolean): void {
    [this.connected, this.lastNews] = [connected, connected ? Date.now() : this.lastNews];
    this.send({ kind: "state", connected, at: this.lastNews });
  }
}

export const live = new Live();
