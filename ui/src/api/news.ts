/** News of the stream: which of them concern a page. */

import type { ExecutionsNews, PollsNews } from "./types";

/** True if executions of some automations may have progressed. */
export const ofAutomations =
  (automations: () => string[]) =>
  (news: unknown): boolean => {
    const { executions, more, uncounted } = news as ExecutionsNews;
    const wanted = new Set(automations());
    return more > 0 || uncounted || executions.some((one) => one.automation !== undefined && wanted.has(one.automation));
  };

/** True if executions of an automation may have progressed. */
export const ofAutomation = (automation: string) => ofAutomations(() => [automation]);

/** True if an execution may have begun to wait; executions already waiting may have ended with any news. */
export const ofWaiting =
  (count: () => number) =>
  (news: unknown): boolean => {
    const { statuses, more, uncounted } = news as ExecutionsNews;
    return more > 0 || uncounted || statuses["waiting"] !== undefined || count() > 0;
  };

/** True if an automation was polled, or a subscription of it has changed. */
export const ofPoll =
  (automation: string) =>
  (news: unknown): boolean =>
    (news as PollsNews).automations.includes(automation);
