import { expect, test } from "vitest";

import type { ConnectionInput } from "../api/types";
import { isName, operations, secretName } from "./connection";

test("a secret is named after the connection and the input", () => {
  expect(secretName("mainWiki", "apiToken")).toBe("mainWikiApiToken");
  expect(secretName("main-wiki", "token")).toBe("mainWikiToken");
  expect(["mainWiki", "a-b_1", "", "1a", "a b", "../a"].map(isName)).toEqual([true, true, false, false, false, false]);
});

test("the file names the secret and never contains its value", () => {
  const input = (name: string, secret: boolean) => ({ name, secret, required: true, type: { kind: "text" } }) as ConnectionInput;
  const inputs = [input("host", false), input("apiToken", true), input("left", false)];
  const written = operations("wiki.basic", "main", inputs, { host: "https://a", apiToken: "canary" });
  expect(written).toEqual([
    { op: "set", at: ["type"], value: "wiki.basic" },
    { op: "set", at: ["with"], value: { host: "https://a", apiToken: "${{ secrets.mainApiToken }}" } },
  ]);
  expect(operations("http.none", "main", [], {})).toEqual([{ op: "set", at: ["type"], value: "http.none" }]);
});
