/** A new automation: the payload that it reads, and the changes of its scaffold by the card of its trigger. */

import type { Operation } from "../api/types";
import { CODE, type Card, HMAC } from "../forms/cards";

/** A payload that has come already, which the new automation reads. */
export type Source = { execution: string } | { automation: string; saved: string } | { automation: string; capture: number };

/** The payload that an address names; `undefined` if it names none. */
export function sourceOf(query: URLSearchParams): Source | undefined {
  const [execution, automation, saved, capture] = ["execution", "automation", "saved", "capture"].map((name) => query.get(name));
  if (execution) {
    return { execution };
  }
  if (automation && saved) {
    return { automation, saved };
  }
  return automation && capture ? { automation, capture: Number(capture) } : undefined;
}

/** A source in words. */
export function sourceWords(source: Source): string {
  if ("execution" in source) {
    return `execution ${source.execution.slice(0, 8)}…`;
  }
  return "saved" in source ? `the saved payload ${source.saved} of ${source.automation}` : `request ${source.capture} captured by ${source.automation}`;
}

/** True if an automation with the trigger of a card can start with a payload that came to a trigger of this kind. */
export function fits(card: Card, kind: string): boolean {
  const polled = ["poll", "event"];
  if (card.scaffold !== undefined) {
    return card.scaffold === kind;
  }
  return card.kind === kind || (polled.includes(card.kind) && polled.includes(kind));
}

/** The presets of signatures that need no more than a secret, each with its meaning. */
export const PRESETS: readonly [string, string][] = [
  ["hmac", "who signs with a secret (HMAC)"],
  ["sharedToken", "who sends a secret token"],
  ["standardWebhooks", "who signs as Standard Webhooks has it"],
  ["github", "GitHub"],
  ["gitlab", "GitLab"],
  ["shopify", "Shopify"],
  ["slack", "Slack"],
  ["stripe", "Stripe"],
];

/** The operations on the scaffold of the card's kind. `preset` is that of the signature, empty for none. */
export function operations(card: Card, isSync: boolean, preset: string): Operation[] {
  const at = ["trigger", "webhook"];
  const found: Operation[] = [];
  if (card.kind !== "webhook") {
    return found;
  }
  if (isSync && card.key !== "code") {
    found.push({ op: "set", at: [...at, "mode"], value: "sync" });
  }
  if (preset) {
    found.push({ op: "set", at: [...at, "verify"], value: { ...HMAC, preset } });
  }
  if (card.key === "code") {
    found.push({ op: "set", at: [...at, "code"], value: CODE });
  }
  return found;
}
