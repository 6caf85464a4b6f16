import { describe, expect, it } from "vitest";

import { edited, editable } from "./payloadText";

describe("the editable part of a payload", () => {
  it("is the inputs of a manual start, and the data of a poll", () => {
    expect(editable({ kind: "manual", inputs: { a: 1 } })?.name).toBe("inputs");
    expect(editable({ kind: "poll", data: [1] })?.name).toBe("data");
    expect(editable({ kind: "schedule" })).toBeUndefined();
  });
  it("round-trips to the payload of a start", () => {
    expect(edited({ kind: "poll" }, '{"a":2}')).toEqual({ payload: { data: { a: 2 } } });
    expect(edited({ kind: "manual" }, '{"a":2}')).toEqual({ payload: { kind: "manual", inputs: { a: 2 } } });
    expect(edited({ kind: "manual" }, "{").error).toContain("not JSON");
  });
});
