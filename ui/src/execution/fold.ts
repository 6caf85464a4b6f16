/** The state of an execution at a moment: its first events, folded as the daemon folds all of them. */

import type { ActionError, Delay, DelayReason, EventView, Outcome, StepView, Try } from "../api/types";
import { instant, iso } from "./instant";

/** The state of an execution at a moment. */
export interface Moment {
  steps: StepView[];
  waits: Delay[];
  outcome?: Outcome;
  at: string;
}

interface Open {
  from: string;
  reason: DelayReason;
  until?: string;
}

const ms = (from: string, to: string): number => Math.max(0, instant(to) - instant(from));

/** Folds events. Events of the part of the log that has not been read yet are simply missing. */
export function fold(events: readonly EventView[]): Moment {
  const steps = new Map<string, StepView>();
  const waits: Delay[] = [];
  const open = new Map<string, Open>();
  let outcome: Outcome | undefined;

  const end = (step: string, at: string, by?: string) => {
    const wait = open.get(step);
    if (!wait) {
      return;
    }
    open.delete(step);
    const alone = wait.reason.kind === "retry" || wait.reason.kind === "time";
    const to = alone && wait.until !== undefined && instant(wait.until) < instant(at) ? wait.until : at;
    const name = step.split("#")[0] ?? "";
    waits.push({
      from: wait.from,
      at: to,
      ms: ms(wait.from, to),
      reason: wait.reason,
      ...(name === "" ? {} : { step: name }),
      ...(by === undefined ? {} : { by }),
    });
  };
  const endAll = (at: string) => [...open.keys()].forEach((step) => end(step, at));

  /** The first events of a replay, whose outcomes it keeps. */
  const kept = (events[0]?.["origin"] as { kept?: number } | undefined)?.kept ?? 0;

  for (const [index, event] of events.entries()) {
    const { at } = event;
    const step = event.step;
    switch (event.event) {
      case "waited": {
        const length = event["ms"] as number;
        const from = iso(instant(at) - length);
        const reason = event["reason"] as DelayReason;
        waits.push({ from, at, ms: length, reason, ...(step === undefined ? {} : { step }) });
        break;
      }
      case "resumed":
        if (!event["waited"]) {
          const from = events[index - 1]?.at ?? at;
          waits.push({ from, at, ms: ms(from, at), reason: { kind: "interrupted" } });
        }
        break;
      case "retried":
        endAll(at);
        open.set("", { from: at, reason: { kind: "retry" }, until: event["nextAt"] as string });
        break;
      case "stepRetry":
        end(step ?? "", at);
        open.set(step ?? "", { from: at, reason: { kind: "retry" }, until: event["nextAt"] as string });
        break;
      case "waiting":
        if (!open.has(step ?? "") || open.get(step ?? "")?.reason.kind === "retry") {
          end(step ?? "", at);
          const on = event["on"] as DelayReason;
          const until = event["until"] as string | undefined;
          open.set(step ?? "", { from: at, reason: on, ...(until === undefined ? {} : { until }) });
        }
        break;
      case "waitEnded":
        end(step ?? "", at, sender(events, index, step, event["signal"] as string | undefined));
        break;
      case "stepStarted":
      case "stepFailed":
      case "stepFinished":
        end("", at);
        end(step ?? "", at);
        break;
      case "failing":
      case "cancelling":
        endAll(at);
        break;
      case "finished":
        endAll(at);
        outcome = event["outcome"] as Outcome;
        for (const view of steps.values()) {
          if (view.status === "running" || view.status === "waiting" || view.status === "handling") {
            view.status = "left";
          }
        }
        break;
    }
    if (step !== undefined && !step.includes("#")) {
      apply(steps, step, event);
      const view = steps.get(step);
      if (view && index > 0 && index <= kept) {
        Object.assign(view, { kept: true, attempts: 0, tries: [] });
        delete view.startedAt;
        delete view.tookMs;
      }
    }
  }
  waits.sort((a, b) => instant(a.from) - instant(b.from));
  const at = events.at(-1)?.at ?? iso(0);
  return { steps: [...steps.values()], waits, at, ...(outcome === undefined ? {} : { outcome }) };
}

/** The sender of the signal that ended a wait. */
function sender(events: readonly EventView[], before: number, step: string | undefined, id: string | undefined) {
  for (let index = before - 1; id !== undefined && index >= 0; index -= 1) {
    const event = events[index];
    const signal = event?.["signal"] as { id: string; by?: string } | undefined;
    if (event?.event === "signalled" && event.step === step && signal?.id === id) {
      return signal.by;
    }
  }
  return undefined;
}

const KNOWN = new Set([
  "stepStarted",
  "stepRetry",
  "stepFailed",
  "waiting",
  "signalled",
  "stepCalled",
  "stepFinished",
  "waited",
]);

function apply(steps: Map<string, StepView>, step: string, event: EventView): void {
  if (!KNOWN.has(event.event)) {
    return;
  }
  let view = steps.get(step);
  if (!view) {
    view = { step, status: "running", attempts: 0, tries: [] };
    steps.set(step, view);
  }
  const { at } = event;
  const tries = (view.tries ??= []);
  const last = tries.at(-1);
  const error = event["error"] as ActionError | undefined;
  switch (event.event) {
    case "stepStarted":
      view.status = "running";
      view.attempts = event.attempt ?? 1;
      view.startedAt = at;
      delete view.nextAt;
      delete view.finishedAt;
      tries.push({ attempt: view.attempts, startedAt: at });
      break;
    case "stepRetry": {
      view.status = "waiting";
      view.attempts = event.attempt ?? 1;
      fail(tries, view.attempts, at, error, view.nextAt);
      view.nextAt = event["nextAt"] as string;
      if (error) {
        view.error = error;
      }
      break;
    }
    case "stepFailed":
      view.status = "handling";
      fail(tries, last?.finishedAt === undefined ? (last?.attempt ?? 1) : last.attempt + 1, at, error, view.nextAt);
      if (error) {
        view.error = error;
      }
      break;
    case "waiting":
      view.status = "waiting";
      view.startedAt ??= at;
      view.on = event["on"] as NonNullable<StepView["on"]>;
      if (typeof event["until"] === "string") {
        view.nextAt = event["until"];
      }
      break;
    case "signalled": {
      const { name, by } = event["signal"] as { name?: string; by?: string };
      const signal = { at, ...(name ? { name } : {}), ...(by === undefined ? {} : { by }) };
      view.signals = [...(view.signals ?? []), signal];
      break;
    }
    case "stepCalled": {
      const call = event["call"] as { kind: string; id?: string; method?: string; url?: string };
      if (call.kind === "request") {
        view.request = { method: call.method ?? "", url: call.url ?? "" };
      } else if (call.id !== undefined) {
        view.executions = [...new Set([...(view.executions ?? []), call.id])];
      }
      view.startedAt ??= at;
      break;
    }
    case "stepFinished":
      finish(view, tries, at, event);
      break;
  }
}

function fail(tries: Try[], attempt: number, at: string, error: ActionError | undefined, due: string | undefined): void {
  let last = tries.at(-1);
  if (!last || last.finishedAt !== undefined || last.attempt !== attempt) {
    last = { attempt, ...(due === undefined ? {} : { startedAt: due }) };
    tries.push(last);
  }
  last.finishedAt = at;
  if (last.startedAt !== undefined) {
    last.tookMs = ms(last.startedAt, at);
  }
  if (error) {
    last.error = error;
  }
}

function finish(view: StepView, tries: Try[], at: string, event: EventView): void {
  const outcome = event["outcome"] as {
    outcome: string;
    result?: unknown;
    error?: ActionError;
    handled?: unknown;
    by?: NonNullable<StepView["left"]>;
  };
  const stored = (view.status === "running" || view.status === "handling") && view.attempts > 0;
  view.finishedAt = at;
  const paused = view.on !== undefined ? view.startedAt : undefined;
  delete view.nextAt;
  delete view.on;
  if (outcome.outcome === "skipped") {
    view.status = "skipped";
    return;
  }
  const took = paused === undefined ? (event["tookUs"] as number) / 1000 : ms(paused, at);
  const begun = iso(instant(at) - took);
  if (outcome.outcome === "failed") {
    view.status = "failed";
    if (outcome.error) {
      view.error = outcome.error;
    }
    if ("handled" in outcome) {
      view.handled = outcome.handled;
    }
  } else {
    view.status = "succeeded";
    delete view.error;
    if (outcome.by !== undefined) {
      view.left = outcome.by;
    }
    if (outcome.result !== undefined) {
      view.result = outcome.result;
    }
  }
  view.attempts += stored ? 0 : 1;
  view.tookMs = took;
  view.startedAt = begun;
  let last = tries.at(-1);
  if (last?.finishedAt !== undefined && last.attempt >= view.attempts) {
    return;
  }
  if (!last || last.finishedAt !== undefined) {
    last = { attempt: view.attempts, startedAt: begun };
    tries.push(last);
  }
  last.finishedAt = at;
  last.tookMs = took;
  if (view.status === "failed" && view.error) {
    last.error = view.error;
  }
}

/** The words for an event, for the scrubber and for screen readers. */
export function describe(event: EventView | undefined): string {
  if (!event) {
    return "nothing yet";
  }
  const step = event.step === undefined ? "" : ` ${event.step}`;
  const outcome = (event["outcome"] as { outcome?: string } | undefined)?.outcome ?? "";
  const words: Record<string, string> = {
    started: "accepted",
    resumed: "resumed by another daemon",
    stepStarted: `step${step} began, attempt ${event.attempt ?? 1}`,
    stepRetry: `attempt ${event.attempt ?? 1} of step${step} failed`,
    stepFailed: `step${step} failed, its onError steps begin`,
    stepFinished: `step${step} ${outcome}`,
    stepCalled: `step${step} made a call`,
    stepDated: `step${step} read the clock or the state`,
    waiting: `step${step} waits`,
    signalled: `a signal came for step${step}`,
    waitEnded: `the wait of step${step} ended`,
    responded: "the response was decided",
    failing: "failed, the closing steps begin",
    cancelling: "cancelled, the closing steps begin",
    clockSet: "the clock was set",
    waited: `a wait ended${step === "" ? "" : ` of step${step}`}`,
    answered: "the caller got a timeout",
    retried: "failed, and will be tried again",
    finished: `ended: ${outcome}`,
  };
  return words[event.event] ?? event.event;
}
