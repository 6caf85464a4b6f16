/** The cards of triggers, and what each changes in the text of a new automation. */

import type { Automation, Operation } from "../api/types";

export interface Card {
  key: string;
  /** The kind of trigger, as `POST /scaffold` takes it. */
  kind: Automation["trigger"];
  title: string;
  about: string;
}

export const CARDS: readonly Card[] = [
  { key: "webhook", kind: "webhook", title: "Webhook", about: "A request to an address of its own starts it." },
  { key: "signed", kind: "webhook", title: "Signed webhook", about: "Only requests with a valid signature start it: the sender shares a secret." },
  { key: "code", kind: "webhook", title: "Code block", about: "Code of yours decides the payload and the response of each request." },
  { key: "schedule", kind: "schedule", title: "Schedule", about: "The clock starts it: every few minutes, daily, weekly or by cron." },
  { key: "event", kind: "event", title: "App event", about: "Something that happens in another application starts it." },
  { key: "poll", kind: "poll", title: "Poll", about: "An action is called regularly; what is new in its result starts it." },
  { key: "manual", kind: "manual", title: "Manual", about: "A person, the command line or the API starts it, with inputs." },
];

const CODE = `export default async (context, payload) => {
  // The value of trigger.results in the steps, and what the caller gets.
  return { payload, response: { statusCode: 202 } };
};
`;

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
  return card.kind === kind || (polled.includes(card.kind) && polled.includes(kind));
}

/** The operations on the scaffold of the card's kind. */
export function operations(card: Card, isSync: boolean): Operation[] {
  const at = ["trigger", "webhook"];
  const found: Operation[] = [];
  if (card.kind !== "webhook") {
    return found;
  }
  if (isSync && card.key !== "code") {
    found.push({ op: "set", at: [...at, "mode"], value: "sync" });
  }
  if (card.key === "signed") {
    found.push({ op: "set", at: [...at, "verify"], value: { preset: "hmac", secret: "${{ secrets.webhookSecret }}" } });
  }
  if (card.key === "code") {
    found.push({ op: "set", at: [...at, "code"], value: CODE });
  }
  return found;
}
