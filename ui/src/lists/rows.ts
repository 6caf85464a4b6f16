/** Rows of the list of executions: merged from pages and news, selected one by one or in ranges. */

import type { ExecutionNews, ExecutionRow } from "../api/types";

/** The rows with a newer first page: known rows are replaced, and new ones come first. Both are newest first. */
export function merge(first: ExecutionRow[], rows: ExecutionRow[]): ExecutionRow[] {
  const known = new Map(first.map((row) => [row.id, row]));
  const rest = rows.filter((row) => !known.has(row.id));
  const last = first.at(-1);
  // The first page is authoritative for its range: rows missing from it are removed from the list.
  const older = last === undefined ? rest : rest.filter((row) => row.startedAt <= last.startedAt);
  return [...first, ...older];
}

/** The number of rows of a first page that are not in the list. */
export function unseen(first: ExecutionRow[], rows: ExecutionRow[]): number {
  const known = new Set(rows.slice(0, first.length + 1).map((row) => row.id));
  return first.filter((row) => !known.has(row.id)).length;
}

/** The rows with a changed status, updated from news. News are few, and rows may be many. */
export function changed(rows: ExecutionRow[], news: ExecutionNews[]): Map<string, ExecutionRow["status"]> {
  const told = new Map(news.map(({ id, status }) => [id, status]));
  const found = rows.filter(({ id, status }) => (told.get(id) ?? status) !== status);
  return new Map(found.map(({ id, status }) => [id, told.get(id) ?? status]));
}

/** The ids from one row to another, both included, in either direction. */
export function range(rows: { id: string }[], from: string | undefined, to: string): string[] {
  const end = rows.findIndex((row) => row.id === to);
  const begin = from === undefined ? end : rows.findIndex((row) => row.id === from);
  if (end < 0) {
    return [];
  }
  const [low, high] = begin < 0 ? [end, end] : [Math.min(begin, end), Math.max(begin, end)];
  return rows.slice(low, high + 1).map((row) => row.id);
}

/** The row that many places further, within the list. */
export function step(rows: { id: string }[], from: string | undefined, by: number): string | undefined {
  const place = rows.findIndex((row) => row.id === from);
  const next = place < 0 ? (by > 0 ? 0 : rows.length - 1) : place + by;
  return rows[Math.max(0, Math.min(rows.length - 1, next))]?.id;
}
