/** Stretches of time in a row of the timeline, and their arithmetic: union, difference, and few enough to draw. */

import type { DelayReason } from "../api/types";

/** A stretch of time. Instants are milliseconds since the beginning of the execution. */
export interface Segment {
  kind: "work" | "commit" | "next" | "queue";
  from: number;
  to: number;
  /** The wait that it is; absent for work. */
  reason?: DelayReason;
  by?: string;
  /** The status of the attempt or turn that worked; absent for a wait. */
  status?: string;
  /** True for a wait that has not ended. */
  isOpen?: boolean;
}

/** Maximum number of segments of one row; the nearest ones are joined beyond it. */
export const MOST = 200;

/** Waits and the work outside of them: sorted, without overlap. */
export function without(work: Segment[], waits: Segment[]): Segment[] {
  const taken = disjoint(waits.filter(({ from, to }) => to > from));
  const rest = disjoint(work, true).flatMap((stretch) =>
    // A stretch without length stays beside the waits: it is an instant at which the step worked.
    stretch.from < stretch.to ? subtract(stretch, taken) : isInside(taken, stretch.from) ? [] : [stretch],
  );
  return [...rest, ...taken].sort((a, b) => a.from - b.from || a.to - b.to);
}

/** Segments without the parts that an earlier one covers, sorted. With `instants` those without length stay, too. */
export function disjoint(segments: Segment[], instants = false): Segment[] {
  let end = 0;
  const found: Segment[] = [];
  for (const segment of [...segments].sort((a, b) => a.from - b.from || b.to - a.to)) {
    const from = Math.max(segment.from, end);
    if (from < segment.to || (instants && from === segment.from && from === segment.to)) {
      found.push({ ...segment, from });
      end = segment.to;
    }
  }
  return found;
}

/** Overlapping stretches as one. */
export function union(segments: Segment[]): Segment[] {
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

/** The time that segments cover, in milliseconds, to the microsecond that the daemon writes. */
export const length = (segments: Segment[]): number =>
  Math.round(union(segments).reduce((sum, { from, to }) => sum + to - from, 0) * 1000) / 1000;

/** The parts of a segment that none of the sorted, disjoint stretches covers. */
export function subtract(segment: Segment, stretches: Segment[]): Segment[] {
  const parts: Segment[] = [];
  let from = segment.from;
  for (let index = firstAfter(stretches, from); index < stretches.length; index += 1) {
    const stretch = stretches[index] as Segment;
    if (stretch.from >= segment.to) {
      break;
    }
    if (stretch.from > from) {
      parts.push({ ...segment, from, to: stretch.from });
    }
    from = Math.max(from, stretch.to);
  }
  if (from < segment.to) {
    parts.push({ ...segment, from });
  }
  return parts;
}

/** The index of the first stretch that ends after an instant. */
function firstAfter(stretches: Segment[], at: number): number {
  let [low, high] = [0, stretches.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((stretches[middle] as Segment).to <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** Work by status, without overlap: where two turns work at once, the worse status is drawn. */
export function painted(work: Segment[], rank: (status: string | undefined) => number): Segment[] {
  const byStatus = new Map<string | undefined, Segment[]>();
  for (const segment of work) {
    byStatus.set(segment.status, [...(byStatus.get(segment.status) ?? []), segment]);
  }
  let taken: Segment[] = [];
  const found: Segment[] = [];
  for (const [status, own] of [...byStatus].sort(([a], [b]) => rank(a) - rank(b))) {
    const stretches = union(own);
    for (const stretch of stretches) {
      const parts = stretch.from === stretch.to && !covers(taken, stretch.from) ? [stretch] : subtract(stretch, taken);
      found.push(...parts.map((part) => ({ ...part, ...(status === undefined ? {} : { status }) })));
    }
    taken = union([...taken, ...stretches]);
  }
  return found.sort((a, b) => a.from - b.from || a.to - b.to);
}

const isInside = (stretches: Segment[], at: number) => (stretches[firstAfter(stretches, at)]?.from ?? at) < at;

const covers = (stretches: Segment[], at: number) => {
  const next = stretches[firstAfter(stretches, at)];
  return next !== undefined && next.from <= at;
};

/** The turns of a loop in one row: work by its status, waits beside it, and no more than fit. */
export function join(segments: Segment[], rank: (status: string | undefined) => number): Segment[] {
  const work = painted(segments.filter(({ kind }) => kind === "work"), rank);
  const gaps = work.slice(1).map(({ from }, index) => from - (work[index]?.to ?? 0));
  const limit = work.length > MOST ? ([...gaps].sort((a, b) => b - a)[MOST - 1] ?? 0) : -1;
  const joined: Segment[] = [];
  for (const [index, stretch] of work.entries()) {
    const last = joined.at(-1);
    if (last && (gaps[index - 1] ?? 0) <= limit) {
      last.to = stretch.to;
      if (rank(stretch.status) < rank(last.status)) {
        Object.assign(last, { status: stretch.status });
      }
    } else {
      joined.push({ ...stretch });
    }
  }
  const covered = union(joined);
  const waits = disjoint(segments.filter(({ kind }) => kind !== "work")).flatMap((wait) => subtract(wait, covered));
  return [...joined, ...waits.slice(0, MOST)].sort((a, b) => a.from - b.from);
}
