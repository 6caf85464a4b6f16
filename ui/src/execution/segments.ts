/** The timeline of an execution: each step as a row of work, waits and commits on a common scale. */

import type { Delay, DelayReason, StepView, Try } from "../api/types";
import { idOf } from "../graph/key";
import type { Place } from "../graph/tree";
import { around } from "./blocks";
import { instant } from "./instant";
import { disjoint, join, length, MOST, type Segment, subtract, union, without } from "./stretches";

export interface Row {
  /** The step without turns; empty for the execution itself. */
  step: string;
  /** The worst status of its turns. */
  status: string;
  /** The number of turns of a loop in the row. */
  turns: number;
  attempts: number;
  /** Sorted, without overlap. */
  segments: Segment[];
  /** The time of its attempts, in milliseconds. */
  worked: number;
}

export interface Timeline {
  rows: Row[];
  /** From the acceptance to the end, or to now. */
  whole: number;
  /** The time in which at least one step worked. With `waited` it is the whole. */
  worked: number;
  waited: number;
}

const RANK = ["failed", "stuck", "running", "handling", "waiting", "left", "cancelled", "succeeded", "skipped"];
const WAIT_KIND: Record<string, Segment["kind"]> = { commit: "commit", slot: "queue", memory: "queue", permit: "queue", host: "queue" };

export interface Input {
  steps: readonly StepView[];
  waits: readonly Delay[];
  startedAt: string;
  /** The end; absent while it runs. */
  finishedAt?: string | undefined;
  /** Now, for what still runs. */
  now: number;
  /** The places of the steps in the graph, by which blocks are known. */
  all?: ReadonlyMap<string, Place> | undefined;
  /** The wait of the whole execution that has not ended. */
  queue?: { from: string; reason: DelayReason } | undefined;
}

/** The rows in the order of beginning, the execution itself first if it waited. */
export function timeline({ steps, waits, startedAt, finishedAt, now, all, queue }: Input): Timeline {
  const start = instant(startedAt);
  const whole = Math.max(0, (finishedAt === undefined ? now : instant(finishedAt)) - start);
  const offset = (at: string) => Math.min(whole, Math.max(0, instant(at) - start));
  const byStep = waitsByStep(steps, waits, offset);
  if (queue) {
    const kind = WAIT_KIND[queue.reason.kind] ?? "next";
    byStep.set("", [...(byStep.get("") ?? []), { kind, from: offset(queue.from), to: whole, reason: queue.reason, isOpen: true }]);
  }
  const order = new Map([...(all?.keys() ?? [])].map((id, index) => [id, index]));
  const rows = new Map<string, Row & { first: number }>();
  const add = (id: string, view: StepView | undefined, segments: Segment[]) => {
    const first = segments[0]?.from ?? (view?.finishedAt === undefined ? whole : offset(view.finishedAt));
    const known = rows.get(id);
    if (!known) {
      const status = view?.status ?? "succeeded";
      rows.set(id, { step: id, status, turns: 1, attempts: view?.attempts ?? 0, segments, worked: 0, first });
      return;
    }
    known.turns += 1;
    known.attempts = Math.max(known.attempts, view?.attempts ?? 0);
    known.segments.push(...segments);
    known.first = Math.min(known.first, first);
    if (rank(view?.status) < rank(known.status)) {
      known.status = view?.status ?? known.status;
    }
  };
  const own = byStep.get("");
  if (own) {
    add("", undefined, without([], own));
  }
  for (const [view, segments] of segmentsOf(steps, byStep, all, whole, offset)) {
    add(idOf(view.step), view, segments);
  }
  const workOf = (segments: Segment[]) => segments.filter(({ kind }) => kind === "work");
  const place = (step: string) => (step === "" ? -1 : (order.get(step) ?? 0));
  const found = [...rows.values()].sort((a, b) =>
    a.step === "" ? -1 : b.step === "" ? 1 : a.first - b.first || place(a.step) - place(b.step),
  );
  const worked = length(found.flatMap(({ segments }) => workOf(segments)));
  return {
    rows: found.map(({ first: _, ...row }) => ({
      ...row,
      segments: row.turns > 1 ? join(row.segments, rank) : row.segments,
      worked: length(workOf(row.segments)),
    })),
    whole,
    worked,
    waited: whole - worked,
  };
}

const rank = (status: string | undefined) => {
  const found = RANK.indexOf(status ?? "");
  return found < 0 ? RANK.length : found;
};

/** The waits of each step. The pause before a turn of a loop, `poll[2]`, is one of the loop, `poll`. */
function waitsByStep(steps: readonly StepView[], waits: readonly Delay[], offset: (at: string) => number): Map<string, Segment[]> {
  const known = new Set(steps.map(({ step }) => step));
  const found = new Map<string, Segment[]>();
  for (const wait of waits) {
    let key = wait.step ?? "";
    while (!known.has(key) && key.endsWith("]")) {
      key = key.slice(0, key.lastIndexOf("["));
    }
    const segment: Segment = {
      kind: WAIT_KIND[wait.reason.kind] ?? "next",
      from: offset(wait.from),
      to: offset(wait.at),
      reason: wait.reason,
      ...(wait.by === undefined ? {} : { by: wait.by }),
    };
    const list = found.get(key);
    if (list) {
      list.push(segment);
    } else {
      found.set(key, [segment]);
    }
  }
  return found;
}

/**
 * The segments of each step. A block works while a step inside works: the time in which the steps inside only wait is a wait of
 * the block too.
 */
function segmentsOf(
  steps: readonly StepView[],
  byStep: ReadonlyMap<string, Segment[]>,
  all: ReadonlyMap<string, Place> | undefined,
  whole: number,
  offset: (at: string) => number,
): [StepView, Segment[]][] {
  const inside = new Map<string, Segment[]>();
  const blocks = new Set(all ? steps.flatMap(({ step }) => around(step, all)) : []);
  const collect = (view: StepView, segments: Segment[]) => {
    for (const block of all ? around(view.step, all) : []) {
      const list = inside.get(block);
      if (list) {
        list.push(...segments);
      } else {
        inside.set(block, [...segments]);
      }
    }
  };
  const segments = new Map<string, Segment[]>();
  for (const view of steps) {
    const pauses = byStep.get(view.step) ?? [];
    if (blocks.has(view.step)) {
      collect(view, pauses);
      continue;
    }
    const open = view.status === "waiting" && view.nextAt !== undefined && pauseOf(view, whole, offset);
    const own = without(work(view, whole, offset), open ? [...pauses, open] : pauses);
    segments.set(view.step, own);
    collect(view, own);
  }
  return steps.map((view) => {
    const own = segments.get(view.step);
    if (own) {
      return [view, own];
    }
    const open = view.status === "waiting" && view.nextAt !== undefined ? [pauseOf(view, whole, offset)] : [];
    const within = [...(inside.get(view.step) ?? []), ...(byStep.get(view.step) ?? []), ...open];
    const worked = union(within.filter(({ kind }) => kind === "work"));
    const idle = disjoint(within.filter(({ kind, from, to }) => kind !== "work" && to > from)).flatMap((wait) => subtract(wait, worked));
    const last = within.reduce((end, { to }) => Math.max(end, to), 0);
    const stretches = isOpen(view) || view.finishedAt === undefined ? span(view, isOpen(view) ? whole : last, offset) : work(view, whole, offset);
    const shown = without(stretches, idle);
    return [view, shown.length > MOST ? join(shown, rank) : shown];
  });
}

const isOpen = ({ status }: StepView) => status === "running" || status === "handling" || status === "waiting";

/** The stretch of a block that has not ended. */
function span(view: StepView, to: number, offset: (at: string) => number): Segment[] {
  const from = view.startedAt === undefined ? to : Math.min(to, offset(view.startedAt));
  return [{ kind: "work", from, to, status: view.status }];
}

/** The wait that a step is in: of a retry, or of a pause. */
function pauseOf(view: StepView, whole: number, offset: (at: string) => number): Segment {
  const last = view.tries?.at(-1)?.finishedAt;
  const from = view.on ? (view.startedAt ?? last) : (last ?? view.startedAt);
  const reason: DelayReason = view.on ?? { kind: "retry" };
  return { kind: "next", from: from === undefined ? 0 : offset(from), to: whole, reason, isOpen: true };
}

/** The stretches in which a step was in an attempt. */
function work(view: StepView, whole: number, offset: (at: string) => number): Segment[] {
  if (view.status === "skipped" || view.kept) {
    return [];
  }
  const isOpen = view.status === "running" || view.status === "handling";
  const plain = { startedAt: view.startedAt, finishedAt: view.finishedAt, tookMs: view.tookMs };
  const tries: Try[] = view.tries && view.tries.length > 0 ? view.tries : [{ attempt: view.attempts, ...plain }];
  return tries.flatMap((one, index): Segment[] => {
    if (one.startedAt === undefined && one.finishedAt === undefined) {
      return [];
    }
    const isLast = index === tries.length - 1;
    const to = one.finishedAt === undefined ? (isLast && isOpen ? whole : undefined) : offset(one.finishedAt);
    if (to === undefined) {
      // The daemon stopped in it, or it pauses.
      const from = one.startedAt === undefined ? 0 : offset(one.startedAt);
      return view.status === "waiting" && isLast ? [{ kind: "work", from, to: from, status: view.status }] : [];
    }
    const began = one.startedAt === undefined ? to : Math.min(to, offset(one.startedAt));
    // The recorded duration is the time that it worked: before that its start was committed. Instants are rounded to a microsecond.
    const from = one.tookMs === undefined ? began : Math.max(began - 0.001, Math.min(to, to - one.tookMs));
    // An attempt that failed and was followed by another one is red in a step that succeeded.
    return [{ kind: "work", from, to, status: one.error ? "failed" : view.status }];
  });
}

/** The place of an instant on the scale, from 0 to 1. The logarithmic one shows short stretches beside a long wait. */
export function position(at: number, whole: number, logarithmic: boolean): number {
  if (whole <= 0) {
    return 0;
  }
  const part = Math.min(1, Math.max(0, at / whole));
  return logarithmic ? Math.log1p(part * 999) / Math.log(1000) : part;
}
