import { describe, expect, it } from "vitest";

import { edited, editable } from "./payloadText";

const file = (data: string, encoding = "utf8") => ({ contentType: "application/json", size: data.length, encoding, data });

describe("the editable part of a payload", () => {
  it("is the body of a request, the inputs of a manual start, and the data of a poll", () => {
    expect(editable({ kind: "webhook", body: { $file: file('{"a":1}') } })).toEqual({ name: "body", text: '{\n  "a": 1\n}' });
    expect(editable({ kind: "webhook", body: file("plain") })?.text).toBe("plain");
    expect(editable({ kind: "manual", inputs: { a: 1 } })?.name).toBe("inputs");
    expect(editable({ kind: "poll", data: [1] })?.name).toBe("data");
  });
  it("is missing for bytes and for schedules", () => {
    expect(editable({ kind: "webhook", body: file("AAA=", "base64") })).toBeUndefined();
    expect(editable({ kind: "schedule" })).toBeUndefined();
  });
  it("comes back as the payload of a start", () => {
    expect(edited({ kind: "webhook" }, '{"a":2}')).toEqual({ payload: { body: { a: 2 } } });
    expect(edited({ kind: "webhook" }, "hello")).toEqual({ payload: { body: "hello" } });
    expect(edited({ kind: "manual" }, '{"a":2}')).toEqual({ payload: { kind: "manual", inputs: { a: 2 } } });
    expect(edited({ kind: "manual" }, "{").error).toContain("not JSON");
  });
});
