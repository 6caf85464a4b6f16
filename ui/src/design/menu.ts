/** The entries of a menu. */

export interface MenuItem {
  label: string;
  /** The address that it leads to. */
  href?: string;
  act?: () => void;
  /** The reason for which it cannot be chosen. */
  disabled?: string | undefined;
  /** True for what cannot be undone. */
  isDanger?: boolean;
}

/** The index of the entry that a key goes to; `undefined` if the key does nothing in a menu. `at` is -1 before the first entry. */
export function moved(key: string, at: number, count: number): number | undefined {
  switch (key) {
    case "ArrowDown":
      return (at + 1) % count;
    case "ArrowUp":
      return (Math.max(at, 0) - 1 + count) % count;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
}
