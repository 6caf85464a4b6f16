import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import type { ServerEvent } from "./sse";
import { StreamReader } from "./stream";

/** One stream that was opened. */
interface Opened {
  topics: string[];
  last: string | undefined;
  signal: AbortSignal;
  /** Sends a part of its text. */
  say: (text: string) => void;
  end: () => void;
}

describe("the reader of the stream of news", () => {
  let followed: string[];
  let allowed: boolean;
  let refused: number;
  const opened: Opened[] = [];
  const refreshed: (string[] | undefined)[] = [];
  const since: number[] = [];
  const events: ServerEvent[] = [];
  let connected: boolean | undefined;
  let over: AbortController;
  let reader: StreamReader;

  beforeEach(() => {
    vi.useFakeTimers();
    [followed, allowed, refused, connected] = [["catalog"], true, 0, undefined];
    [opened, refreshed, since, events].forEach((list) => (list.length = 0));
    over = new AbortController();
    reader = new StreamReader({
      topics: () => followed,
      open: async (topics, last, signal) => {
        if (refused > 0) {
          refused -= 1;
          return undefined;
        }
        return new ReadableStream<string>({
          start: (controller) => {
            signal.addEventListener("abort", () => controller.error(new Error("aborted")), { once: true });
            opened.push({ topics, last, signal, say: (text) => controller.enqueue(text), end: () => controller.close() });
          },
        });
      },
      isAllowed: () => allowed,
      event: (event) => events.push(event),
      refresh: (at, topics) => (refreshed.push(topics), since.push(at)),
      state: (now) => (connected = now),
    });
  });
  afterEach(() => {
    over.abort();
    vi.useRealTimers();
  });

  /** Lets everything happen that is due within this time, in milliseconds. */
  const pass = (time = 0) => vi.advanceTimersByTimeAsync(time);
  const newest = () => opened.at(-1) as Opened;
  const start = async () => {
    void reader.read(over.signal);
    await pass();
  };

  test("newly followed topics are refetched when their stream opens, and not before", async () => {
    await start();
    expect(refreshed).toEqual([["catalog"]]);
    followed = ["catalog", "execution:1", "executions"];
    reader.settle();
    await pass(49);
    expect(refreshed).toHaveLength(1);
    await pass(1);
    expect(newest().topics).toEqual(followed);
    expect(refreshed.slice(1)).toEqual([["execution:1", "executions"]]);
  });

  test("a stream of fewer topics refetches nothing, and a returning topic is refetched", async () => {
    followed = ["catalog", "execution:1"];
    await start();
    followed = ["catalog"];
    reader.settle();
    await pass(50);
    expect([opened.length, refreshed.length]).toEqual([2, 1]);
    followed = ["catalog", "execution:1"];
    reader.settle();
    await pass(50);
    expect(refreshed.slice(1)).toEqual([["execution:1"]]);
  });

  test("following an already followed topic opens no other stream", async () => {
    followed = ["catalog", "executions"];
    await start();
    followed = ["executions", "catalog", "executions"];
    reader.settle();
    await pass(100);
    expect([opened.length, refreshed.length]).toEqual([1, 1]);
  });

  test("a resource read after the stream opened is not refetched on its first event", async () => {
    await start();
    const before = Date.now();
    await pass(100);
    newest().say("event: open\ndata: {}\n\n");
    await pass();
    expect(since).toEqual([before, before]);
    newest().say("event: resync\ndata: {}\n\n");
    await pass();
    expect(since[2]).toBe(before + 100);
  });

  test("successive changes of the followed topics open one stream", async () => {
    await start();
    for (let count = 0; count < 10; count += 1) {
      followed = [...followed, `execution:${count}`];
      reader.settle();
      await pass(10);
    }
    await pass(50);
    expect(opened.map(({ topics }) => topics.length)).toEqual([1, 11]);
    expect(opened[0]?.signal.aborted).toBe(true);
  });

  test("a stream resumes after the last event and refetches nothing", async () => {
    await start();
    newest().say('event: catalog\ndata: {"generation": 2}\nid: a-7\n\n');
    await pass();
    expect(events).toEqual([{ name: "catalog", data: { generation: 2 }, id: "a-7" }]);
    newest().end();
    await pass();
    expect(connected).toBe(false);
    await pass(500);
    expect([newest().last, refreshed.length, connected]).toEqual(["a-7", 1, true]);
  });

  test("a resync refetches everything, and events that change nothing are ignored", async () => {
    await start();
    newest().say('event: resync\ndata: {}\n\nevent: closing\ndata: {}\n\nevent: dropped\ndata: {}\n\n');
    await pass();
    expect(refreshed.slice(1)).toEqual([undefined]);
    expect(events).toEqual([]);
  });

  test("a silent stream is reopened", async () => {
    await start();
    await pass(24_000);
    newest().say(": alive\n\n");
    await pass(24_000);
    expect(opened).toHaveLength(1);
    await pass(1500);
    expect(opened).toHaveLength(2);
  });

  test("rejected streams back off, and a change of topics does not wait for that", async () => {
    refused = 8;
    await start();
    await pass(20_000);
    expect(opened).toHaveLength(0);
    refused = 0;
    followed = ["catalog", "executions"];
    reader.settle();
    await pass(50);
    expect(opened).toHaveLength(1);
  });

  test("without a session the reader ends", async () => {
    await start();
    allowed = false;
    newest().end();
    await pass(1000);
    expect([reader.isReading, opened.length]).toEqual([false, 1]);
  });

  test("a stream has at most 32 topics, each once", async () => {
    followed = ["catalog", "catalog", ...Array.from({ length: 40 }, (_, index) => `execution:${index}`)];
    await start();
    expect(newest().topics).toHaveLength(32);
    expect(new Set(newest().topics).size).toBe(32);
  });
});
