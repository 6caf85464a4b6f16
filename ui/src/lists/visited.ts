/** The list of executions that was looked at last, for `[` and `]` on the page of one of them. */

const KEY = "cogwork-list";
/** Maximum number of ids that are kept. */
const MOST = 1000;

/** The beginning of a list, as it is kept. */
export const listed = (rows: { id: string }[]): string => JSON.stringify(rows.slice(0, MOST).map(({ id }) => id));

export function keepList(list: string): void {
  sessionStorage.setItem(KEY, list);
}

/** The execution before or after this one in the list; `undefined` at its ends, and without a list. */
export function neighbour(id: string, by: 1 | -1): string | undefined {
  let ids: string[];
  try {
    ids = JSON.parse(sessionStorage.getItem(KEY) ?? "[]") as string[];
  } catch {
    return undefined;
  }
  const place = ids.indexOf(id);
  return place < 0 ? undefined : ids[place + by];
}
