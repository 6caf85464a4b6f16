/** The timeline of an execution: each step as a row of work, waits and commits on a common scale. */

import type { Delay, DelayReason, StepView } from "../api/types";
import { idOf } from "../graph/key";
import { instant } from "./instant";

/** A stretch of time. Instants are milliseconds since the beginning of the execution. */
export interface Segment {
  kind: "work" | "commit" | "next" | "queue";
  from: number;
  to: number;
  /** The wait that it is; absent for work. */
  reason?: DelayReason;
  by?: string;
}

export interface Row {
  /** The step without turns; empty for the execution itself. */
  step: string;
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

/** The most segments of one row; the nearest ones are joined beyond it. */
const MOST = 200;
const RANK = ["failed", "stuck", "running", "handling", "waiting", "left", "cancelled", "succeeded", "skipped"];
const WAIT_KIND: Record<string, Segment["kind"]> = { commit: "commit", slot: "queue", permit: "queue", host: "queue" };

export interface Input {
  steps: readonly StepView[];
  waits: readonly Delay[];
  startedAt: string;
  /** The end; absent while it runs. */
  finishedAt?: string | undefined;
  /** Now, for what still runs. */
  now: number;
}

/** The rows in the order of beginning, the execution itself first if it waited. */
export function timeline({ steps, waits, startedAt, finishedAt, now }: Input): Timeline {
  const start = instant(startedAt);
  const whole = Math.max(0, (finishedAt === undefined ? now : instant(finishedAt)) - start);
  const clip = (at: number) => Math.min(whole, Math.max(0, at));
  const offset = (at: string) => clip(instant(at) - start);
  const byStep = new Map<string, Segment[]>();
  for (const wait of waits) {
    const segment: Segment = {
      kind: WAIT_KIND[wait.reason.kind] ?? "next",
      from: offset(wait.from),
      to: offset(wait.at),
      reason: wait.reason,
      ...(wait.by === undefined ? {} : { by: wait.by }),
    };
    const key = wait.step ?? "";
    byStep.set(key, [...(byStep.get(key) ?? []), segment]);
  }
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
    known.segments = [...known.segments, ...segments];
    known.first = Math.min(known.first, first);
    if (rank(view?.status) < rank(known.status)) {
      known.status = view?.status ?? known.status;
    }
  };
  const own = byStep.get("");
  if (own) {
    add("", undefined, without([], own));
  }
  for (const view of steps) {
    const pauses = byStep.get(view.step) ?? [];
    const open = view.status === "waiting" && view.nextAt !== undefined && pauseOf(view, whole, offset);
    add(idOf(view.step), view, without(work(view, whole, offset), open ? [...pauses, open] : pauses));
  }
  const workOf = (segments: Segment[]) => segments.filter(({ kind }) => kind === "work");
  const found = [...rows.values()].sort((a, b) => (a.step === "" ? -1 : b.step === "" ? 1 : a.first - b.first));
  const worked = length(found.flatMap(({ segments }) => workOf(segments)));
  return {
    rows: found.map(({ first: _, ...row }) => ({
      ...row,
      segments: row.turns > 1 ? join(row.segments) : row.segments,
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

/** The wait that a step is in: of a retry, or of a pause. */
function pauseOf(view: StepView, whole: number, offset: (at: string) => number): Segment {
  const last = view.tries?.at(-1)?.finishedAt;
  const from = view.on ? (view.startedAt ?? last) : (last ?? view.startedAt);
  const reason: DelayReason = view.on ?? { kind: "retry" };
  return { kind: "next", from: from === undefined ? 0 : offset(from), to: whole, reason };
}

/** The stretches in which a step was in an attempt. */
function work(view: StepView, whole: number, offset: (at: string) => number): Segment[] {
  if (view.status === "skipped" || view.kept) {
    return [];
  }
  const isOpen = view.status === "running" || view.status === "handling";
  const plain = { startedAt: view.startedAt, finishedAt: view.finishedAt, tookMs: view.tookMs };
  const tries = view.tries && view.tries.length > 0 ? view.tries : [plain];
  return tries.flatMap((one, index): Segment[] => {
    if (one.startedAt === undefined && one.finishedAt === undefined) {
      return [];
    }
    const isLast = index === tries.length - 1;
    const to = one.finishedAt === undefined ? (isLast && isOpen ? whole : undefined) : offset(one.finishedAt);
    if (to === undefined) {
      // The daemon stopped in it, or it pauses.
      const from = one.startedAt === undefined ? 0 : offset(one.startedAt);
      return view.status === "waiting" && isLast ? [{ kind: "work", from, to: from }] : [];
    }
    const from = one.startedAt === undefined ? to : offset(one.startedAt);
    return [{ kind: "work", from: Math.min(from, to), to }];
  });
}

/** Waits and what is left of the work beside them: sorted, and no two at the same time. */
function without(work: Segment[], waits: Segment[]): Segment[] {
  const taken = disjoint(waits.filter(({ from, to }) => to > from));
  const rest = union(work).flatMap((stretch) => {
    const parts: Segment[] = [];
    let from = stretch.from;
    for (const wait of taken) {
      if (wait.to <= from || wait.from >= stretch.to) {
        continue;
      }
      if (wait.from > from) {
        parts.push({ kind: "work", from, to: wait.from });
      }
      from = Math.max(from, wait.to);
    }
    // A stretch without length stays: it is an instant at which the step worked.
    if (from < stretch.to || (from === stretch.from && stretch.from === stretch.to)) {
      parts.push({ kind: "work", from, to: stretch.to });
    }
    return parts;
  });
  return [...rest, ...taken].sort((a, b) => a.from - b.from || a.to - b.to);
}

/** Segments without the parts that an earlier one covers. */
function disjoint(segments: Segment[]): Segment[] {
  let end = 0;
  const found: Segment[] = [];
  for (const segment of [...segments].sort((a, b) => a.from - b.from || b.to - a.to)) {
    const from = Math.max(segment.from, end);
    if (from < segment.to) {
      found.push({ ...segment, from });
      end = segment.to;
    }
  }
  return found;
}

/** Overlapping stretches as one. */
function union(segments: Segment[]): Segment[] {
  const found: Segment[] = [];
  for (const { from, to } of [...segments].sort((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last && from <= last.to) {
      last.to = Math.max(last.to, to);
    } else {
      found.push({ kind: "work", from, to });
    }
  }
  return found;
}

const length = (segments: Segment[]) => union(segments).reduce((sum, { from, to }) => sum + to - from, 0);

/** The turns of a loop in one row: work joined where it overlaps, waits beside it, and no more than fit. */
function join(segments: Segment[]): Segment[] {
  const work = union(segments.filter(({ kind }) => kind === "work"));
  const gaps = work.slice(1).map(({ from }, index) => from - (work[index]?.to ?? 0));
  const limit = work.length > MOST ? [...gaps].sort((a, b) => b - a)[MOST - 1] ?? 0 : -1;
  const joined: Segment[] = [];
  for (const [index, stretch] of work.entries()) {
    const last = joined.at(-1);
    if (last && (gaps[index - 1] ?? 0) <= limit) {
      last.to = stretch.to;
    } else {
      joined.push({ ...stretch });
    }
  }
  const waits = disjoint(segments.filter(({ kind }) => kind !== "work")).flatMap((wait) => subtract(wait, joined));
  return [...joined, ...waits.slice(0, MOST)].sort((a, b) => a.from - b.from);
}

/** The parts of a wait in which no turn worked. */
function subtract(wait: Segment, work: Segment[]): Segment[] {
  const parts: Segment[] = [];
  let from = wait.from;
  for (const stretch of work) {
    if (stretch.to <= from || stretch.from >= wait.to) {
      continue;
    }
    if (stretch.from > from) {
      parts.push({ ...wait, from, to: stretch.from });
    }
    from = Math.max(from, stretch.to);
  }
  if (from < wait.to) {
    parts.push({ ...wait, from });
  }
  return parts;
}

/** The place of an instant on the scale, from 0 to 1. The logarithmic one shows short stretches beside a long wait. */
export function position(at: number, whole: number, logarithmic: boolean): number {
  if (whole <= 0) {
    return 0;
  }
  const part = Math.min(1, Math.max(0, at / whole));
  return logarithmic ? Math.log1p(part * 999) / Math.log(1000) : part;
}
