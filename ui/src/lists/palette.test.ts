import { expect, test } from "vitest";

import type { Automation } from "../api/types";
import { beAt, type Entry, isHere, lineOf, offer, offered, wordOf } from "./commands";
import { MOST, actions, executionOf, matching } from "./palette";

const places = ["Order intake", "Reorder paper", "Heartbeat", "Bored clerk"].map(
  (name): Entry => ({ kind: "Automation", name, path: "/" }),
);
const names = (text: string) => matching(places, text).map(({ name }) => name);

test("a prefix ranks before a word, a word before a substring, a substring before a subsequence", () => {
  expect(names("order")).toEqual(["Order intake", "Reorder paper", "Bored clerk"]);
  expect(names("ore")).toEqual(["Bored clerk", "Order intake", "Reorder paper"]);
  expect(names("clerk")).toEqual(["Bored clerk"]);
  expect(names("htbt")).toEqual(["Heartbeat"]);
  expect(names("zzz")).toEqual([]);
});

test("an empty text offers the first entries, up to a limit", () => {
  expect(names("")).toHaveLength(4);
  expect(matching(Array.from({ length: 500 }, () => places[0] as Entry), "o")).toHaveLength(MOST);
});

test("an id prefix finds an execution", () => {
  expect(executionOf("01A204EE")?.path).toBe("/executions/01a204ee");
  expect(executionOf("01a204ee-9cac-7000-99f7-9b490872defa")?.kind).toBe("Execution");
  for (const text of ["", "01a", "order", "01a2 04", "../../x"]) {
    expect(executionOf(text)).toBeUndefined();
  }
});

test("an automation can be run, listened to if it has a webhook, and enabled or disabled", async () => {
  const one = (id: string, trigger: string, enabled: boolean) => ({ id, name: id.toUpperCase(), trigger, enabled }) as Automation;
  const done: unknown[] = [];
  const effects = {
    setEnabled: async (id: string, enabled: boolean) => void done.push([id, enabled]),
    setTheme: (theme: string) => void done.push(theme),
  };
  const found = actions([one("a b", "webhook", true), one("c", "manual", false)], effects);
  const offers = found.map(({ name, path }) => [name, path]);
  expect(offers).toEqual([
    ["New automation", "/new"],
    ["Run A B", "/automations/a%20b?tab=test&focus=run"],
    ["Listen at A B", "/automations/a%20b?tab=test&focus=listen"],
    ["Disable A B", undefined],
    ["Run C", "/automations/c?tab=test&focus=run"],
    ["Enable C", undefined],
    ["Theme: as the system", undefined],
    ["Theme: light", undefined],
    ["Theme: dark", undefined],
  ]);
  for (const name of ["Disable A B", "Enable C", "Theme: dark"]) {
    await found.find((entry) => entry.name === name)?.act?.();
  }
  expect(done).toEqual([["a b", false], ["c", true], "dark"]);
});

test("a page offers commands while it is open", () => {
  const end = offer((text) => [{ kind: "Line", name: `Line ${text}` }]);
  expect(offered("7").map(({ name }) => name)).toEqual(["Line 7"]);
  end();
  expect(offered("7")).toEqual([]);
});

test("a line is a number, with or without a colon", () => {
  expect(["58", ":58", " 7 ", "0", "58a", "", "1234567"].map(lineOf)).toEqual([58, 58, 7, undefined, undefined, undefined, undefined]);
});

test("a line begins at its first word, and a line past the end is the last one", () => {
  const text = "steps:\n  - id: page\n    set: {}";
  expect([1, 2, 3, 99].map((line) => text.slice(wordOf(text, line)).split(":")[0])).toEqual(["steps", "id", "set", "set"]);
});

test("actions on the automation of the open page are offered while it is open", () => {
  const run = (hint: string): Entry => ({ kind: "Action", name: `Run ${hint}`, hint });
  const end = beAt("zz-last");
  expect([run("approval"), run("zz-last"), { ...run("zz-last"), kind: "Automation" }].map(isHere)).toEqual([false, true, false]);
  end();
  expect(isHere(run("zz-last"))).toBe(false);
});
