/** The entries of the palette, and the search among them. */

import type { Automation } from "../api/types";
import { type Theme, THEMES } from "../design/theme";
import type { Entry } from "./commands";

/** Maximum number of entries that are offered. */
export const MOST = 50;

/**
 * The entries that match a text, best first: those that begin with it, then those with a word that does, then those that
 * contain it, then those with its letters in order.
 */
export function matching(entries: Entry[], text: string): Entry[] {
  const wanted = text.trim().toLowerCase();
  const ranked = entries
    .map((entry, index) => ({ entry, index, rank: rank(`${entry.name} ${entry.hint ?? ""}`.toLowerCase(), wanted) }))
    .filter(({ rank: found }) => found < Infinity)
    .sort((one, other) => one.rank - other.rank || one.index - other.index);
  return ranked.slice(0, MOST).map(({ entry }) => entry);
}

function rank(name: string, wanted: string): number {
  if (wanted === "" || name.startsWith(wanted)) {
    return 0;
  }
  if (name.split(/[\s\-_./·]+/).some((word) => word.startsWith(wanted))) {
    return 1;
  }
  if (name.includes(wanted)) {
    return 2;
  }
  let from = 0;
  for (const letter of wanted.replace(/\s/g, "")) {
    from = name.indexOf(letter, from) + 1;
    if (from === 0) {
      return Infinity;
    }
  }
  return 3;
}

/** The execution whose id, or the beginning of whose id, a text is; `undefined` if it cannot be one. */
export function executionOf(text: string): Entry | undefined {
  const id = text.trim().toLowerCase();
  return /^[0-9a-f]{4}[0-9a-f-]{0,32}$/.test(id) ? { kind: "Execution", name: id, path: `/executions/${id}` } : undefined;
}

/** The changes that actions of the palette make. */
export interface Effects {
  setEnabled: (id: string, enabled: boolean) => Promise<void>;
  setTheme: (theme: Theme) => void;
}

/**
 * The actions on automations, and the themes. *Run* and *Listen* lead to the control that does it, which has the focus: a run
 * calls other systems, so it takes a second key.
 */
export function actions(automations: Automation[], effects: Effects): Entry[] {
  const found = automations.flatMap((one): Entry[] => {
    const path = `/automations/${encodeURIComponent(one.id)}?tab=test&focus=`;
    const listens = one.trigger === "webhook" || (one.trigger === "event" && one.triggers[0]?.isOwnEvent !== true);
    const word = one.enabled ? "Disable" : "Enable";
    return [
      { kind: "Action", name: `Run ${one.name}`, hint: one.id, path: `${path}run` },
      ...(listens ? [{ kind: "Action", name: `Listen at ${one.name}`, hint: one.id, path: `${path}listen` }] : []),
      { kind: "Action", name: `${word} ${one.name}`, hint: one.id, act: () => effects.setEnabled(one.id, !one.enabled) },
    ];
  });
  const themes = THEMES.map((theme): Entry => {
    const words = { system: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };
    return { kind: "Action", name: words[theme], act: () => effects.setTheme(theme) };
  });
  return [{ kind: "Action", name: "New automation", path: "/new" }, ...found, ...themes];
}
