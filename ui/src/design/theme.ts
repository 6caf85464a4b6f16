/** The theme: that of the system, or the user's choice in this browser. */

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "cogwork-theme";

export function theme(): Theme {
  const known = localStorage.getItem(KEY);
  return THEMES.find((one) => one === known) ?? "system";
}

export function setTheme(chosen: Theme): void {
  if (chosen === "system") {
    localStorage.removeItem(KEY);
  } else {
    localStorage.setItem(KEY, chosen);
  }
  applyTheme();
}

/** Shows the page in the chosen theme. */
export function applyTheme(): void {
  const chosen = theme();
  if (chosen === "system") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = chosen;
  }
}
