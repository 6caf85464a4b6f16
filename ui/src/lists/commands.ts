/** The commands of the page that is open, which the palette offers besides places: its steps, its lines, its actions. */

/** An entry of the palette: a place to go to, or a command. */
export interface Entry {
  kind: string;
  name: string;
  /** Further words by which it is found. */
  hint?: string;
  /** The address of a place. */
  path?: string;
  /** Runs the command. An error that it throws is shown. */
  act?: () => void | Promise<void>;
  /** True if the text names exactly this: it comes first. */
  exact?: boolean;
}

type Offer = (text: string) => Entry[];

const offers = new Set<Offer>();

/** The automations that the open page is about. */
const places = new Set<string>();

/** Names the automation that a page is about while it is open. Returns what ends that. */
export function beAt(automation: string): () => void {
  places.add(automation);
  return () => places.delete(automation);
}

/** True for an action on the automation of the open page, by its hint. */
export const isHere = ({ kind, hint }: Entry): boolean => kind === "Action" && hint !== undefined && places.has(hint);

/** Offers commands while a page is open. Returns what ends that. */
export function offer(commands: Offer): () => void {
  offers.add(commands);
  return () => offers.delete(commands);
}

/** The commands of the open page for a text. */
export function offered(text: string): Entry[] {
  return [...offers].flatMap((commands) => commands(text));
}

/** The place of the first word of a line, from 1, or of the last line if there are fewer: behind the dash of a list. */
export function wordOf(text: string, line: number): number {
  const lines = text.split("\n");
  const index = Math.min(line, lines.length) - 1;
  const start = lines.slice(0, index).reduce((sum, one) => sum + one.length + 1, 0);
  return start + (/^[\s-]*/.exec(lines[index] ?? "")?.[0].length ?? 0);
}

/** The line that a text names: `58` or `:58`. */
export function lineOf(text: string): number | undefined {
  const found = /^:?(\d{1,6})$/.exec(text.trim())?.[1];
  return found === undefined || Number(found) === 0 ? undefined : Number(found);
}
