/** The part of a recorded payload that people edit, as text, and back. */

import { parse } from "../value/exact";
import { asFile } from "../value/file";

type Payload = { kind: string; [name: string]: unknown };

/** The editable part: the body of a request, the inputs of a manual start, the data of a poll; `undefined` if there is none. */
export function editable(payload: Payload): { name: string; text: string } | undefined {
  switch (payload.kind) {
    case "webhook": {
      const body = asFile(payload.body);
      if (body && body.encoding !== "utf8") {
        return undefined;
      }
      return { name: "body", text: pretty(body?.data ?? "") };
    }
    case "manual":
      return { name: "inputs", text: JSON.stringify(payload.inputs ?? {}, null, 2) };
    case "poll":
      return { name: "data", text: JSON.stringify(payload.data ?? null, null, 2) };
    default:
      return undefined;
  }
}

function pretty(text: string): string {
  try {
    return JSON.stringify(parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The payload of a start with the edited text. Text that is not JSON is sent as text, where the payload is a request. */
export function edited(payload: Payload, text: string): { payload?: unknown; error?: string } {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    if (payload.kind !== "webhook") {
      return { error: `This is not JSON: ${(error as Error).message}` };
    }
    value = text;
  }
  switch (payload.kind) {
    case "webhook":
      return { payload: { body: value } };
    case "manual":
      return { payload: { kind: "manual", inputs: value } };
    default:
      return { payload: { data: value } };
  }
}
