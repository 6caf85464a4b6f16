/** Server-sent events, and which of them belong to a topic. */

/** An event of the stream. */
export interface ServerEvent {
  name: string;
  data: unknown;
  id: string | undefined;
}

/** Takes the text of a stream apart (HTML Standard, section 9.2.6). Comments and broken data are left out. */
export class Parser {
  private rest = "";

  /** The events that are complete with this part. */
  add(part: string): ServerEvent[] {
    const blocks = (this.rest + part).split(/\r\n\r\n|\n\n/);
    this.rest = blocks.pop() ?? "";
    return blocks.map(read).filter((event) => event !== undefined);
  }
}

function read(block: string): ServerEvent | undefined {
  let name = "message";
  let id: string | undefined;
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const end = line.indexOf(":");
    const field = end < 0 ? line : line.slice(0, end);
    const value = end < 0 ? "" : line.slice(end + 1).replace(/^ /, "");
    if (field === "event") {
      name = value;
    } else if (field === "id") {
      id = value;
    } else if (field === "data") {
      data.push(value);
    }
  }
  if (data.length === 0) {
    return undefined;
  }
  try {
    return { name, data: JSON.parse(data.join("\n")), id };
  } catch {
    return undefined;
  }
}

/** True if an event belongs to a topic. */
export function concerns(topic: string, event: ServerEvent): boolean {
  const [kind, id] = topic.split(":", 2);
  const data = event.data as { id?: string; automation?: string };
  if (event.name !== kind) {
    return false;
  }
  return id === undefined || (kind === "listen" ? data.automation : data.id) === id;
}

const FIRST_DELAY = 500;
const LONGEST_DELAY = 30_000;

/** The time before the next attempt after `failures` in a row, in milliseconds; `random` from 0 to 1 spreads the tabs of many. */
export function delay(failures: number, random: number): number {
  const whole = Math.min(FIRST_DELAY * 2 ** Math.max(0, failures - 1), LONGEST_DELAY);
  return whole * (0.75 + random / 4);
}
