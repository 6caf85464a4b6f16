/** The list of automations: which rows a filter leaves, and their numbers in words. */

import type { Automation, AutomationStatistics } from "../api/types";

export interface Filter {
  text: string;
  state: string;
  trigger: string;
  label: string;
}

/** The state that is shown: a disabled automation may have a file that does not load, too. */
export function shownState(one: Pick<Automation, "enabled" | "state" | "missingSecrets">): string {
  if (!one.enabled) {
    return "disabled";
  }
  return one.state === "active" && one.missingSecrets?.some(({ blocksStart }) => blocksStart) ? "needsSecret" : one.state;
}

/** The secrets that an automation lacks: `needs slackSigning`. */
export const missingInWords = (one: Pick<Automation, "missingSecrets">): string[] =>
  (one.missingSecrets ?? []).map(({ name }) => `needs ${name}`);

/** The automations that fit every part of a filter that is set. */
export function filtered(automations: Automation[], filter: Filter): Automation[] {
  const text = filter.text.toLowerCase();
  return automations.filter(
    (one) =>
      (filter.state === "" || shownState(one) === filter.state) &&
      (filter.trigger === "" || kindsOf(one).includes(filter.trigger)) &&
      (filter.label === "" || one.labels.includes(filter.label)) &&
      [one.id, one.name, one.path, one.description ?? ""].some((place) => place.toLowerCase().includes(text)),
  );
}

/** The kinds of its triggers, each once, in their order. */
export const kindsOf = (one: Automation): string[] => [...new Set([one.trigger, ...one.triggers.map(({ kind }) => kind)])];

/** The trigger in words: `webhook · sync`, `daily at 08:30 (UTC)`; of several: `3 triggers: schedule, webhook`. */
export function triggerInWords(one: Automation): string {
  if (one.triggers.length > 1) {
    return `${one.triggers.length} triggers: ${kindsOf(one).join(", ")}`;
  }
  if (one.trigger === "schedule" && one.triggerWords) {
    return one.triggerWords;
  }
  return one.triggerWords ? `${one.trigger} · ${one.triggerWords}` : one.trigger;
}

/** The part of the ended executions that succeeded; `undefined` if none ended. Cancelled ones count as neither. */
export function successRate(found: AutomationStatistics | undefined): number | undefined {
  if (!found) {
    return undefined;
  }
  const ended = found.succeeded + found.failed + found.stuck;
  return ended === 0 ? undefined : found.succeeded / ended;
}

/** A rate in percent; only a whole one is 100 %. */
export function percent(rate: number | undefined): string {
  if (rate === undefined) {
    return "–";
  }
  const shown = Math.floor(rate * 1000) / 10;
  return `${shown === 100 || shown === 0 ? shown : shown.toFixed(1)} %`;
}
