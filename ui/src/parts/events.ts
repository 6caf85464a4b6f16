/** The effect of an event that was sent, in words. */

import { many } from "../format";

interface Effect {
  delivered: number;
  kept: boolean;
  starts: readonly string[];
}

/** The effect of an event: how many steps waited for it, how many triggers it starts, and if it is kept. */
export function effects({ delivered, kept, starts }: Effect): string {
  const steps = delivered === 0 ? "No step waited for it" : delivered === 1 ? "1 waiting step got it" : `${many(delivered)} waiting steps got it`;
  const started = starts.length === 0 ? "it starts nothing" : starts.length === 1 ? "it starts 1 trigger" : `it starts ${many(starts.length)} triggers`;
  return `${steps}; ${started}; ${kept ? "it is kept for 7 days for steps that wait later" : "it is not kept"}.`;
}
