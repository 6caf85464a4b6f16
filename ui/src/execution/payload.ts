/** The payload of an execution, in the parts that steps read with expressions. */

import type { Execution } from "../api/types";

/** A part of a payload. */
export interface Part {
  label: string;
  value: unknown;
  /** The expression that reads it; absent for what no step can read. */
  root?: string;
  /** The expression of its content: of a body, which is stored as it was sent. */
  data?: string;
}

const RESULTS = "trigger.results";
/** The members of a request that `trigger.results` has under the same names. */
const READABLE = ["method", "pathFragment", "queryParameters", "rawQuery", "headers"];

type Payload = Execution["payload"];

/** The parts of a payload, each with the expression that steps read it by. */
export function partsOf(payload: Payload): Part[] {
  const members = Object.entries(payload as object).filter(([name]) => name !== "kind");
  const of = (names: readonly string[]) => Object.fromEntries(members.filter(([name]) => names.includes(name)));
  switch (payload.kind) {
    case "webhook": {
      const decided = (payload as { decided?: { results?: unknown } }).decided;
      const others = members.map(([name]) => name).filter((name) => !READABLE.includes(name) && name !== "body");
      const request = of(READABLE);
      if (decided && "results" in decided) {
        // The code of the trigger has replaced what steps read.
        return [
          { label: "Results of the trigger's code", value: decided.results, root: RESULTS },
          { label: "Request", value: { ...request, ...of(others.filter((name) => name !== "decided")) } },
          { label: "Body", value: payload.body },
        ];
      }
      return [
        { label: "Request", value: request, root: RESULTS },
        ...(others.length > 0 ? [{ label: "Beside the request", value: of(others) }] : []),
        { label: "Body", value: payload.body, data: `${RESULTS}.body.data` },
      ];
    }
    case "poll": {
      const { data, ...others } = of(members.map(([name]) => name));
      return [
        { label: "Data", value: data, root: `${RESULTS}.body.data` },
        { label: "Poll", value: others, root: RESULTS },
      ];
    }
    default:
      return [{ label: "Payload", value: of(members.map(([name]) => name)), root: RESULTS }];
  }
}
