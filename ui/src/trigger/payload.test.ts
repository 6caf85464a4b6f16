import { expect, test } from "vitest";

import { bodyProblem, curl, emptyDraft, fromPayload, multipart, toPayload } from "./payload";

test("repeated rows become lists, and rows without a name are omitted", () => {
  const payload = toPayload({
    ...emptyDraft(),
    query: [
      { name: "tag", value: "a" },
      { name: "tag", value: "b" },
      { name: "", value: "c" },
    ],
    headers: [{ name: "x-a", value: "1" }],
  });
  expect(payload.query).toEqual({ tag: ["a", "b"] });
  expect(payload.headers).toEqual({ "x-a": "1", "content-type": "application/json" });
});

test("a content type given as a header is used", () => {
  const headers = [{ name: "Content-Type", value: "application/vnd.x+json" }];
  expect(toPayload({ ...emptyDraft(), headers }).headers).toEqual({ "Content-Type": "application/vnd.x+json" });
});

test("names of Object.prototype are ordinary names", () => {
  const query = [{ name: "constructor", value: "1" }];
  expect(toPayload({ ...emptyDraft(), query }).query).toEqual({ constructor: "1" });
});

test("a multipart form has its parts with their types, and a boundary that no part contains", () => {
  const upload = { name: 'a"b.png', type: "image/png", size: 3, base64: btoa("\u0001\u0002\u0003") };
  const bytes = multipart(
    [
      { name: "meta", kind: "json", value: '{"a":1}' },
      { name: "note", kind: "text", value: "hello" },
      { name: "image", kind: "file", value: "", upload },
    ],
    "x",
  );
  expect(new TextDecoder().decode(bytes)).toBe(
    '--x\r\ncontent-disposition: form-data; name="meta"\r\ncontent-type: application/json\r\n\r\n{"a":1}\r\n' +
      '--x\r\ncontent-disposition: form-data; name="note"\r\n\r\nhello\r\n' +
      '--x\r\ncontent-disposition: form-data; name="image"; filename="a%22b.png"\r\ncontent-type: image/png\r\n\r\n\u0001\u0002\u0003\r\n' +
      "--x--\r\n",
  );
  const parts = [{ name: "a", kind: "text" as const, value: "--cogwork-boundary--" }];
  const payload = toPayload({ ...emptyDraft(), kind: "multipart", parts });
  expect(payload.headers["content-type"]).toBe("multipart/form-data; boundary=cogwork-boundary-1");
});

test("editing a captured request keeps its untouched parts", () => {
  const draft = fromPayload({
    method: "PUT",
    pathFragment: "a/b",
    queryParameters: { x: ["1", "2"] },
    headers: { "content-type": "application/json", "x-a": "b", host: "localhost" },
    body: { $file: { contentType: "application/json", size: 9, encoding: "utf8", data: '{"a": 1 }' } },
  });
  expect(draft.kind).toBe("json");
  expect(toPayload(draft)).toEqual({
    method: "PUT",
    path: "a/b",
    query: { x: ["1", "2"] },
    headers: { "x-a": "b", "content-type": "application/json" },
    body: '{"a": 1 }',
  });
});

test("bytes that are not text stay bytes", () => {
  const body = { $file: { contentType: "image/png", size: 2, encoding: "base64", data: "iVA=" } };
  const draft = fromPayload({ headers: { "content-type": "image/png" }, body });
  expect(draft.kind).toBe("file");
  expect(toPayload(draft).body).toEqual(body);
});

test("a body that does not match its type is reported before it is sent", () => {
  expect(bodyProblem({ ...emptyDraft(), text: "{" })).toContain("not JSON");
  expect(bodyProblem({ ...emptyDraft(), text: "" })).toBe("");
  expect(bodyProblem({ ...emptyDraft(), kind: "file" })).toBe("no file is chosen");
});

test("an address is quoted as one shell word", () => {
  expect(curl("http://x/a'b")).toBe(`curl -i -X POST 'http://x/a'\\''b' -H 'content-type: application/json' -d '{}'`);
});
