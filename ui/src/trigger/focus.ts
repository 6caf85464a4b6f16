import { untrack } from "svelte";

import { route } from "../router.svelte";

/** Gives the focus to a control that the address names, once: the palette leads to it. */
export const focusOn = (name: "run" | "listen" | "new") => (node: HTMLElement) =>
  untrack(() => {
    if (route.query.get("focus") === name) {
      node.scrollIntoView({ block: "center" });
      node.focus();
      route.set({ focus: null });
    }
  });
