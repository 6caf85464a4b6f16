/**
 * The news of the daemon: one stream for all tabs of a browser, since HTTP/1.1 allows six connections to a host. The tab
 * that holds the lock reads the stream and passes it on; the others say what they follow. Where a browser has no locks
 * (plain HTTP to another host), each tab has a stream of its own while it is visible.
 */

import { ticker } from "../design/ticker.svelte";
import { fields, secret } from "./client";
import { Parser, type ServerEvent, concerns, delay } from "./sse";

/** Receives news; `undefined` if some may be missing, so that everything has to be read anew. */
type Handler = (data: unknown) => void;

type Passed =
  | { kind: "event"; event: ServerEvent }
  | { kind: "resync"; topics?: string[] }
  | { kind: "state"; connected: boolean; at: number }
  | { kind: "follows"; tab: string; topics: string[] }
  | { kind: "gone"; tab: string }
  | { kind: "who" };

const NAME = "cogwork-stream";
/** The topics that every tab follows: for the badge of the inbox and the state of the project. */
const ALWAYS = ["catalog", "executions"];
/** The most topics of one stream. A tab whose topics have no room reads anew when the stream is opened again. */
const MOST_TOPICS = 32;
/** The time without a sign of life after which the stream counts as broken; the daemon gives one every 10 s. */
const SILENCE = 25_000;
/** Events that change nothing that is shown. After `dropped` the next stream begins with `resync`. */
const QUIET = ["closing", "dropped"];
/** The time in which changes of what is followed are gathered, before the stream is opened again. */
const SETTLE = 50;

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
  private last: string | undefined;
  /** The topics of the stream before. */
  private streamed: string[] = [];
  private reads = false;
  private again: (() => void) | undefined;
  private settling: ReturnType<typeof setTimeout> | undefined;

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
        await this.read(signal);
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
    if (this.reads) {
      this.settle();
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
      this.refresh(message.topics);
    } else if (message.kind === "state") {
      [this.connected, this.lastNews] = [message.connected, message.at];
    } else if (message.kind === "who") {
      this.tell();
    } else if (this.reads && message.kind === "follows") {
      const before = this.others.get(message.tab);
      this.others.set(message.tab, message.topics);
      this.state(this.connected);
      if (before?.join() !== message.topics.join()) {
        this.settle();
      }
    } else if (this.reads && message.kind === "gone" && this.others.delete(message.tab)) {
      this.settle();
    }
  }

  /** Opens the stream again once what is followed has settled. */
  private settle(): void {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.again?.(), SETTLE);
  }

  private async whileVisible(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const hidden = new AbortController();
      const change = () => document.visibilityState === "hidden" && hidden.abort();
      document.addEventListener("visibilitychange", change);
      if (document.visibilityState !== "hidden") {
        await this.read(AbortSignal.any([signal, hidden.signal]));
      }
      document.removeEventListener("visibilitychange", change);
      if (!signal.aborted && document.visibilityState === "hidden") {
        await new Promise((shown) => document.addEventListener("visibilitychange", shown, { once: true }));
      }
    }
  }

  /** Reads the stream until `signal` is aborted, and opens it again when it ends. */
  private async read(signal: AbortSignal): Promise<void> {
    this.reads = true;
    let failures = 0;
    while (!signal.aborted && secret() !== null) {
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
      this.state(false);
      await new Promise<void>((done) => {
        const timer = setTimeout(done, delay(failures, Math.random()));
        this.again = () => (clearTimeout(timer), done());
      });
    }
    this.reads = false;
    this.again = undefined;
  }

  /** Reads one stream to its end. True if it was opened. */
  private async once(signal: AbortSignal): Promise<boolean> {
    const topics = [...new Set([...this.topics(), ...[...this.others.values()].flat()])].slice(0, MOST_TOPICS);
    const silence = new AbortController();
    const path = `/api/v1/stream?topics=${encodeURIComponent(topics.join())}`;
    const headers = { ...fields(), ...(this.last && { "last-event-id": this.last }) };
    const response = await fetch(path, { headers, signal: AbortSignal.any([signal, silence.signal]) });
    if (!response.ok || !response.body) {
      return false;
    }
    this.state(true);
    // The stream goes on after the last event of the topics before: news of the others may have come between their first read and now.
    const added = topics.filter((topic) => !this.streamed.includes(topic));
    this.streamed = topics;
    if (added.length > 0) {
      this.send({ kind: "resync", topics: added });
      this.refresh(added);
    }
    const parser = new Parser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let timer = setTimeout(() => silence.abort(), SILENCE);
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE);
        this.state(true);
        parser.add(part.value).forEach((event) => this.receive(event));
      }
    } catch {
      // Broken, silent, or opened again: the caller knows.
    } finally {
      clearTimeout(timer);
    }
    return true;
  }

  private receive(event: ServerEvent): void {
    this.last = event.id ?? this.last;
    // Pages may have read before the stream was open: `open` says that news before it are not known.
    if (event.name === "resync" || event.name === "open") {
      this.send({ kind: "resync" });
      this.refresh();
    } else if (!QUIET.includes(event.name)) {
      this.send({ kind: "event", event });
      this.take(event);
    }
  }

  private take(event: ServerEvent): void {
    this.last = event.id ?? this.last;
    for (const [topic, handlers] of this.handlers) {
      if (concerns(topic, event)) {
        handlers.forEach((handler) => handler(event.data));
      }
    }
  }

  /** Reads anew what is shown of these topics; of all topics if none are given. */
  refresh(topics: string[] = [...this.handlers.keys()]): void {
    topics.forEach((topic) => this.handlers.get(topic)?.forEach((handler) => handler(undefined)));
  }

  private state(connected: boolean): void {
    [this.connected, this.lastNews] = [connected, connected ? Date.now() : this.lastNews];
    this.send({ kind: "state", connected, at: this.lastNews });
  }
}

export const live = new Live();
