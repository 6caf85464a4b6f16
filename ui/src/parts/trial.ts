/** The result of a trial, in words and as a comparison of the record with the trial. */

import type { Execution, Trial } from "../api/types";
import { type Cell, cell, changes, differences, type Named, plain, type Row } from "./compare";

/** The words for the verdicts. */
export const VERDICTS: Record<Trial["verdict"], string> = {
  newCall: "new call",
  differs: "differs",
  waits: "waits",
  notStarted: "not started",
  notRun: "not tried",
  same: "same",
};
const ORDER = Object.keys(VERDICTS);
/** The names of steps that a summary lists. */
const NAMES = 3;

/** The trials, sorted by the number of differences, largest first. */
export function worstFirst(trials: Trial[]): Trial[] {
  return [...trials].sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict));
}

/** The number of trials by verdict: `17 same · 2 differ · 1 new call`. */
export function counts(trials: Trial[]): string {
  const found = [...ORDER].reverse().map((verdict) => [verdict, trials.filter((trial) => trial.verdict === verdict).length] as const);
  const word = (verdict: string, count: number) => {
    if (count === 1) {
      return VERDICTS[verdict as Trial["verdict"]];
    }
    const plural: Record<string, string> = { differs: "differ", waits: "wait", newCall: "new calls" };
    return plural[verdict] ?? VERDICTS[verdict as Trial["verdict"]];
  };
  return found
    .filter(([, count]) => count > 0)
    .map(([verdict, count]) => `${count} ${word(verdict, count)}`)
    .join(" · ");
}

/** The difference of a trial in one line. */
export function summary(trial: Trial): string {
  const { newCall, reason, outcome, response, steps = [] } = trial;
  if (newCall) {
    return `step ${newCall.step} would call ${newCall.action}`;
  }
  if (reason !== undefined) {
    return reason;
  }
  const parts = [];
  const [before, after] = [word(outcome?.recorded, "outcome"), word(outcome?.trial, "outcome")];
  if (outcome) {
    parts.push(before === after ? "another result" : `${before ?? "not ended"} → ${after ?? "not ended"}`);
  }
  if (response) {
    const [sent, now] = [word(response.recorded, "status"), word(response.trial, "status")];
    parts.push(sent === now ? "another response" : `response ${sent ?? "–"} → ${now ?? "–"}`);
  }
  if (steps.length > 0) {
    const names = steps.slice(0, NAMES).map(({ step }) => step);
    const more = steps.length > NAMES ? ` and ${steps.length - NAMES} more` : "";
    parts.push(`${steps.length === 1 ? "step" : "steps"} ${names.join(", ")}${more}`);
  }
  return parts.join(" · ");
}

function word(value: unknown, member: string): string | undefined {
  const found = (value as Record<string, unknown> | undefined)?.[member];
  return found === undefined ? undefined : String(found);
}

/** The outcome and the response of the record against those of the trial. */
export function trialEnds({ outcome, response }: Trial): Named[] {
  const readable = (value: unknown) => {
    const { body, ...rest } = (value ?? {}) as Record<string, unknown>;
    return value === undefined ? undefined : { ...rest, body: plain(body) };
  };
  return differences([
    ["outcome", outcome?.recorded, outcome?.trial],
    ["response", readable(response?.recorded), readable(response?.trial)],
  ]);
}

/** The steps of a trial beside those of its record: different ones, then equal ones. */
export function trialRows({ steps }: Pick<Execution, "steps">, trial: Trial): Row[] {
  const differing = (trial.steps ?? []).map(({ step, recorded, trial: tried }): Row => {
    const inputs = recorded && tried && (recorded.inputs === undefined || tried.inputs === undefined) ? [] : [["input", recorded?.inputs, tried?.inputs]];
    const pairs = [
      ["call", recorded?.action, tried?.action],
      ...inputs,
      ["result", recorded?.result, tried?.result],
      ["error", recorded?.error, tried?.error],
    ] as [string, unknown, unknown][];
    const found = steps.find((one) => one.step === step);
    return {
      step,
      ...(recorded ? { left: found ? cell(found) : side(recorded.status) } : {}),
      ...(tried ? { right: called(trial, step) ?? side(tried.status) } : {}),
      changes: differences(pairs),
      same: false,
    };
  });
  const known = new Set(differing.map(({ step }) => step));
  const { newCall } = trial;
  if (newCall && !known.has(newCall.step)) {
    known.add(newCall.step);
    const right = called(trial, newCall.step);
    differing.push({
      step: newCall.step,
      ...(right ? { right } : {}),
      changes: [{ name: "input", changes: changes(undefined, newCall.inputs) }],
      same: false,
    });
  }
  const equal = steps.filter(({ step }) => !known.has(step));
  return [...differing, ...equal.map((step): Row => ({ step: step.step, left: cell(step), right: { words: "the same" }, changes: [], same: true }))];
}

const side = (status: string | undefined): Cell => ({ ...(status === undefined ? {} : { status }), words: status === undefined ? "not ended" : "" });

/** The step whose call the record has no answer for. */
function called({ newCall }: Trial, step: string): Cell | undefined {
  return newCall?.step === step ? { words: `would call ${newCall.action}; the record has no answer` } : undefined;
}
