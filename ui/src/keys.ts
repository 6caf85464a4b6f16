/** The keyboard: the actions of single letters, and the components that may handle them. */

/** Keys by group, as the map `?` lists them. */
export const KEYS: [string, [string, string][]][] = [
  [
    "Everywhere",
    [
      ["Ctrl K", "go to an automation, an execution, a step, a line, a connection; run, replay, listen, enable, theme"],
      ["/", "filter"],
      ["g a · e · i · v · m · c · k · t · s", "automations, executions, inbox, events, messages, connections, connectors, state, status"],
      ["?", "this map"],
      ["Esc", "close what is on top"],
    ],
  ],
  [
    "Lists",
    [
      ["j · k", "next and previous row"],
      ["Enter", "open the row"],
      ["x · Shift x", "select the row, or up to the row"],
      ["[ · ]", "previous and next execution of the list"],
    ],
  ],
  [
    "Editor",
    [
      ["Ctrl S", "review, and save the second time"],
      ["Ctrl Enter", "to the button that runs"],
      ["F8 · Shift F8", "next and previous problem"],
      ["Ctrl .", "apply the correction"],
      ["F12 · F2", "definition of a step, rename it"],
      ["Alt G", "to the step in the graph"],
      ["Ctrl M", "let Tab leave the editor"],
    ],
  ],
  [
    "Graph of an execution",
    [
      ["↑ · ↓", "step above and below"],
      ["→ · ←", "into a block and out of it"],
      ["< · >", "another turn of the loop"],
      ["Space · Enter", "fold the block, go to the inspector"],
      ["e", "lines of the step"],
      ["+ · - · 0", "zoom"],
    ],
  ],
  [
    "Timeline",
    [
      ["↑ · ↓", "rows"],
      [", · .", "one event back and on"],
      ["f", "follow what runs"],
    ],
  ],
];

const OFF = "cogwork-single-keys";

/** True if single letters act; a person can switch them off. */
export function singleKeys(): boolean {
  return localStorage.getItem(OFF) !== "off";
}

export function setSingleKeys(on: boolean): void {
  if (on) {
    localStorage.removeItem(OFF);
  } else {
    localStorage.setItem(OFF, "off");
  }
}

/** True if a key belongs to a field, to the editor, to a dialog or to the browser. */
export function isTaken(event: KeyboardEvent): boolean {
  // The editor is in a shadow root, where the target of the event is its host.
  const target = event.composedPath()[0] as HTMLElement;
  const isText =
    target.isContentEditable ||
    /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
    (target.tagName === "INPUT" && (target as HTMLInputElement).type !== "checkbox");
  return isText || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null;
}
