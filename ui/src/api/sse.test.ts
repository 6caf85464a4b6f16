import { describe, expect, test } from "vitest";

import { Parser, concerns, delay } from "./sse";

describe("server-sent events", () => {
  test("an event is parsed at any chunk boundaries", () => {
    const text = 'event: executions\ndata: {"more":\ndata: 1}\nid: a-7\n\n: alive\n\ndata: {}\r\n\r\n';
    const expected = [
      { name: "executions", data: { more: 1 }, id: "a-7" },
      { name: "message", data: {}, id: undefined },
    ];
    for (let cut = 0; cut <= text.length; cut += 1) {
      const parser = new Parser();
      const found = [...parser.add(text.slice(0, cut)), ...parser.add(text.slice(cut))];
      // A line end of two characters that is cut in half counts when its second half has come.
      expect(found).toEqual(expected);
    }
  });

  test("data that is not JSON is ignored", () => {
    expect(new Parser().add("event: x\ndata: {\n\n")).toEqual([]);
  });

  test("an event belongs to its topic and to the topic of its id", () => {
    const execution = { name: "execution", data: { id: "1" }, id: undefined };
    const listen = { name: "listen", data: { automation: "a" }, id: undefined };
    expect(concerns("execution:1", execution)).toBe(true);
    expect(concerns("execution:2", execution)).toBe(false);
    expect(concerns("executions", execution)).toBe(false);
    expect(concerns("listen:a", listen)).toBe(true);
    expect(concerns("catalog", { name: "catalog", data: {}, id: undefined })).toBe(true);
  });

  test("reconnects back off to thirty seconds", () => {
    expect(delay(1, 1)).toBe(500);
    expect(delay(4, 1)).toBe(4000);
    expect(delay(50, 1)).toBe(30_000);
    expect(delay(50, 0)).toBe(22_500);
  });
});
