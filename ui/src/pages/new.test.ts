import { expect, test } from "vitest";

import { CARDS } from "../forms/cards";
import { PRESETS, fits, operations, sourceOf, sourceWords } from "./new";

const of = (query: string) => sourceOf(new URLSearchParams(query));

test("an address names an execution, a saved payload or a capture", () => {
  expect(of("execution=01a2")).toEqual({ execution: "01a2" });
  expect(of("automation=a&saved=first")).toEqual({ automation: "a", saved: "first" });
  expect(of("automation=a&capture=3")).toEqual({ automation: "a", capture: 3 });
  expect(of("automation=a")).toBeUndefined();
  expect(of("saved=first")).toBeUndefined();
  expect(sourceWords({ automation: "a", saved: "first" })).toBe("the saved payload first of a");
});

test("a payload fits the cards of its trigger kind", () => {
  const fitting = (kind: string) => CARDS.filter((card) => fits(card, kind)).map(({ key }) => key);
  expect(fitting("webhook")).toEqual(["webhook", "signed", "code"]);
  expect(fitting("event")).toEqual(["event", "poll"]);
  expect(fitting("ownEvent")).toEqual(["ownEvent"]);
  expect(fitting("manual")).toEqual(["manual"]);
});

test("a card and its verification choice become edit operations on the scaffold", () => {
  const written = (key: string, isSync: boolean, preset: string) =>
    operations(CARDS.find((card) => card.key === key) ?? CARDS[0]!, isSync, preset).map((one) => ("at" in one ? one.at.at(-1) : one.op));
  expect(written("webhook", false, "")).toEqual([]);
  expect(written("webhook", true, "github")).toEqual(["mode", "verify"]);
  expect(written("code", true, "hmac")).toEqual(["verify", "code"]);
  expect(written("schedule", true, "hmac")).toEqual([]);
  expect(PRESETS[0]?.[0]).toBe("hmac");
});
