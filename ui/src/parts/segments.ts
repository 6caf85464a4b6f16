/** The timeline of an execution: each step as a bar on a common scale. */

import type { StepView } from "../api/types";

export interface Bar {
  step: string;
  status: string;
  /** The beginning and the length, as parts of the whole from 0 to 1. */
  from: number;
  length: number;
  /** How many turns of a loop the bar stands for. */
  turns: number;
  tookMs: number | undefined;
}

const RANK = ["failed", "stuck", "running", "waiting", "cancelled", "succeeded", "skipped"];

/** One bar for each step in the order of beginning; the turns of a loop share one. `now` ends what still runs. */
export function bars(steps: StepView[], startedAt: string, finishedAt: string | undefined, now: number): Bar[] {
  const start = Date.parse(startedAt);
  const end = Math.max(finishedAt === undefined ? now : Date.parse(finishedAt), start + 1);
  const whole = end - start;
  const byId = new Map<string, { first: number; last: number; views: StepView[] }>();
  for (const view of steps) {
    const id = view.step.replace(/\[.*$/, "");
    const began = view.startedAt === undefined ? start : Date.parse(view.startedAt);
    const ended = view.finishedAt === undefined ? end : Date.parse(view.finishedAt);
    const known = byId.get(id);
    if (known) {
      known.first = Math.min(known.first, began);
      known.last = Math.max(known.last, ended);
      known.views.push(view);
    } else {
      byId.set(id, { first: began, last: ended, views: [view] });
    }
  }
  const part = (instant: number) => Math.min(1, Math.max(0, (instant - start) / whole));
  return [...byId.entries()]
    .map(([step, { first, last, views }]) => ({
      step,
      first,
      status: views.map((view) => view.status).sort((a, b) => RANK.indexOf(a) - RANK.indexOf(b))[0] ?? "running",
      from: part(first),
      length: Math.max(0, part(last) - part(first)),
      turns: views.length,
      tookMs: views.reduce<number | undefined>(
        (sum, view) => (view.tookMs === undefined ? sum : (sum ?? 0) + view.tookMs),
        undefined,
      ),
    }))
    .sort((a, b) => a.first - b.first)
    .map(({ first: _, ...bar }) => bar);
}
