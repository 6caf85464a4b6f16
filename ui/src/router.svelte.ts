/** The address of the page, and its changes. Every view has an address of its own, with its filters. */

class Route {
  path = $state(location.pathname);
  query = $state(new URLSearchParams(location.search));

  constructor() {
    addEventListener("popstate", () => this.read());
  }

  /** Goes to an address of this origin. */
  go(address: string): void {
    history.pushState(null, "", address);
    this.read();
    scrollTo(0, 0);
  }

  /** Changes parameters of the address without a new entry in the history. `null` removes one. */
  set(changes: Record<string, string | null>): void {
    const query = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") {
        query.delete(name);
      } else {
        query.set(name, value);
      }
    }
    const text = query.toString();
    history.replaceState(null, "", this.path + (text ? `?${text}` : ""));
    this.read();
  }

  private read(): void {
    this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
  }
}

export const route = new Route();

/** Follows links of this origin without a new page. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) {
    return;
  }
  const link = (event.target as Element | null)?.closest("a");
  if (!link || link.target || link.origin !== location.origin || link.hasAttribute("download")) {
    return;
  }
  event.preventDefault();
  route.go(link.pathname + link.search);
}
