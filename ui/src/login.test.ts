import { expect, test } from "vitest";

import { pageAfter, returned } from "./login";

test("the callback URL has a code or the error of the provider", () => {
  expect(returned("?code=c&state=s&session_state=x")).toEqual({ code: "c", state: "s" });
  expect(returned("?code=c&state=s&iss=https%3A%2F%2Fid.example")).toEqual({ code: "c", state: "s", iss: "https://id.example" });
  expect(returned("?error=access_denied&state=s")).toEqual({ refused: "access_denied" });
  expect(returned("?error=access_denied&error_description=No%20entry")).toEqual({ refused: "No entry" });
  expect(returned("?code=c")).toBeUndefined();
  expect(returned("")).toBeUndefined();
});

test("a login leads to a page of this origin only", () => {
  expect(pageAfter("/executions?outcome=failed")).toBe("/executions?outcome=failed");
  expect(pageAfter("/")).toBe("/");
  for (const other of [null, "", "//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/login/callback?code=c"]) {
    expect(pageAfter(other)).toBe("/");
  }
});
