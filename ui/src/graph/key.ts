/** Keys of steps in an execution: the id, with the turn of each loop around it, such as `copy[2][0]`. */

/** The id of a step without the turns of the loops around it. */
export const idOf = (key: string): string => key.replace(/\[.*$/, "");

/** The turns of the loops around a step, outermost first. */
export const turnsOf = (key: string): number[] => [...key.matchAll(/\[(\d+)\]/g)].map((match) => Number(match[1]));

/** The key of a step in these turns of the loops around it. */
export const keyIn = (id: string, turns: readonly number[]): string => id + turns.map((turn) => `[${turn}]`).join("");
