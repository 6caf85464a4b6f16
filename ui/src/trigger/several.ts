/** One of several triggers of an automation, as the parts of the drawer show the only one. */

import { segment } from "../api/client";
import type { AutomationDetail, Operation, Path } from "../api/types";
import { type Json, valueAt } from "../forms/trigger";

/** The largest number of triggers that are tabs side by side. More of them are a list. */
export const MOST_TABS = 6;

/** The automation as one of its triggers. Its id is then the name by which the routes of the API know the trigger. */
export function asTrigger(automation: AutomationDetail, id: string): AutomationDetail {
  const trigger = automation.triggers.find((one) => one.id === id);
  if (automation.triggers.length < 2 || !trigger) {
    return automation;
  }
  const { liveUrl: _live, testUrl: _test, triggerWords: _words, keysUsed: _keys, ...common } = automation;
  const { kind, words, enabled, liveUrl, testUrl, nextFires, keysUsed } = trigger;
  return {
    ...common,
    id: `${automation.id}/${id}`,
    trigger: kind,
    enabled,
    nextFires,
    ...(words !== undefined && { triggerWords: words }),
    ...(liveUrl !== undefined && { liveUrl }),
    ...(testUrl !== undefined && { testUrl }),
    ...(keysUsed !== undefined && { keysUsed }),
  };
}

/** True if an own event starts an automation, or the one of its triggers that it is shown as. */
export function hasOwnEvent(automation: AutomationDetail): boolean {
  const id = automation.id.split("/")[1];
  const found = id === undefined ? automation.triggers[0] : automation.triggers.find((one) => one.id === id);
  return found?.isOwnEvent ?? false;
}

/** The automation of a name: `orders` of `orders/paid`. */
export const automationOf = (name: string): string => name.split("/", 1)[0] ?? name;

/** The part of an address of the page that names the trigger of a name; empty for the only one. */
export const triggerOf = (name: string): string => (name.includes("/") ? `&trigger=${segment(name.slice(automationOf(name).length + 1))}` : "");

/** The filter of executions for a name. */
export function executionsOf(name: string): { automation: string; trigger?: string } {
  const [automation = name, trigger] = name.split("/");
  return { automation, ...(trigger !== undefined && { trigger }) };
}

/** The name by which polls and subscriptions are listed: the trigger `main` has that of its automation. */
export const listedAs = (name: string): string => name.replace(/\/main$/, "");

/** The place of a trigger in the list of a file: by its id, or where it was if the draft gives it another one. */
export function placeIn(data: Json | undefined, automation: AutomationDetail, id: string): number | undefined {
  const list = valueAt(data, ["triggers"]);
  if (!Array.isArray(list)) {
    return undefined;
  }
  const found = list.findIndex((one) => valueAt(one, ["id"]) === id);
  const before = automation.triggers.findIndex((one) => one.id === id);
  const place = found < 0 && list.length === automation.triggers.length ? before : found;
  return place < 0 ? undefined : place;
}

/** The data of a file in which the trigger at a place is the only one. */
export const withOnly = (data: Json, place: number): Json => ({
  ...(data as { [name: string]: Json }),
  trigger: valueAt(data, ["triggers", place]) ?? {},
});

const inList = (at: Path, place: number): Path => (at[0] === "trigger" ? ["triggers", place, ...at.slice(1)] : at);

/** Operations on the only trigger as those on the trigger at a place. */
export const onTrigger = (operations: readonly Operation[], place: number): Operation[] =>
  operations.map((one) => ("at" in one ? { ...one, at: inList(one.at, place) } : one));
