/** The cards of triggers, which a new automation and a change of the trigger choose among. */

import type { Automation } from "../api/types";
import type { Json } from "./trigger";

export interface Card {
  key: "webhook" | "signed" | "code" | "schedule" | "event" | "ownEvent" | "failure" | "poll" | "manual";
  /** The kind of trigger. */
  kind: Automation["trigger"];
  /** The kind of new automation, as `POST /scaffold` takes it, if it is not that of the trigger. */
  scaffold?: string;
  title: string;
  about: string;
  /** The value of `trigger` with which an automation changes to it. */
  trigger: Record<string, Json>;
}

/** A code block that changes nothing. */
export const CODE = `export default async (context, payload) => {
  // The value of trigger.results in the steps, and what the caller gets.
  return { payload, response: { statusCode: 202 } };
};
`;
/** A signature with a secret that both sides know. */
export const HMAC = { preset: "hmac", secret: "${{ secrets.webhookSecret }}" };

export const CARDS: readonly Card[] = [
  {
    key: "webhook",
    kind: "webhook",
    title: "Webhook",
    about: "A request to an address of its own starts it.",
    trigger: { webhook: { verify: "none" } },
  },
  {
    key: "signed",
    kind: "webhook",
    title: "Signed webhook",
    about: "Only requests with a valid signature start it: the sender shares a secret.",
    trigger: { webhook: { verify: HMAC } },
  },
  {
    key: "code",
    kind: "webhook",
    title: "Code block",
    about: "Code of yours decides the payload and the response of each request.",
    trigger: { webhook: { verify: "none", code: CODE } },
  },
  {
    key: "schedule",
    kind: "schedule",
    title: "Schedule",
    about: "The clock starts it: every few minutes, daily, weekly or by cron.",
    trigger: { schedule: { daily: { at: "08:30" } } },
  },
  {
    key: "event",
    kind: "event",
    title: "App event",
    about: "Something that happens in another application starts it.",
    trigger: { event: "github.push" },
  },
  {
    key: "ownEvent",
    kind: "event",
    scaffold: "ownEvent",
    title: "Own event",
    about: "An event that a step of another automation sends, or a program.",
    trigger: { event: "order.paid", data: { order: "text" } },
  },
  {
    key: "failure",
    kind: "event",
    scaffold: "failure",
    title: "Failure",
    about: "Executions, polls or files that fail start it, to tell people.",
    trigger: { event: "cogwork.failure" },
  },
  {
    key: "poll",
    kind: "poll",
    title: "Poll",
    about: "An action is called regularly; what is new in its result starts it.",
    trigger: { poll: { action: "http.get", with: { url: "https://example.com/items" }, every: "5m" } },
  },
  {
    key: "manual",
    kind: "manual",
    title: "Manual",
    about: "A person, the command line or the API starts it, with inputs.",
    trigger: { manual: {} },
  },
];
