/** The part of a recorded payload that people edit, as text, and back. A request is edited by its parts instead. */

import { parse } from "../value/exact";

type Payload = { kind: string; [name: string]: unknown };

/** The editable part: the inputs of a manual start, the data of a poll; `undefined` for other triggers. */
export function editable(payload: Payload): { name: string; text: string } | undefined {
  switch (payload.kind) {
    case "manual":
      return { name: "inputs", text: JSON.stringify(payload.inputs ?? {}, null, 2) };
    case "poll":
      return { name: "data", text: JSON.stringify(payload.data ?? null, null, 2) };
    default:
      return undefined;
  }
}

/** The payload of a start with the edited text. */
export function edited(payload: Payload, text: string): { payload?: unknown; error?: string } {
  try {
    const value = parse(text);
    return { payload: payload.kind === "manual" ? { kind: "manual", inputs: value } : { data: value } };
  } catch (error) {
    return { error: `This is not JSON: ${(error as Error).message}` };
  }
}
