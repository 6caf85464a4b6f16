import { distance, inSight } from "./window";

/** The rows in sight of a list in the window. Belongs to the component that calls it. */
export class RowsInSight {
  private above = $state(0);
  private view = $state(innerHeight);
  private readonly found = $derived.by(() => inSight(this.above, this.view, this.height(), this.count()));
  /** The index of the first row that is drawn. */
  readonly first = $derived(this.found.first);
  /** The index after the last row that is drawn. */
  readonly last = $derived(this.found.last);

  constructor(
    private readonly body: () => HTMLElement | undefined,
    private readonly count: () => number,
    private readonly height: () => number,
  ) {
    $effect(() => {
      // The list may begin elsewhere with other rows.
      void [this.count(), this.height()];
      this.place();
    });
    $effect(() => {
      addEventListener("scroll", this.place, { passive: true });
      addEventListener("resize", this.place);
      return () => {
        removeEventListener("scroll", this.place);
        removeEventListener("resize", this.place);
      };
    });
  }

  private place = (): void => {
    const top = this.body()?.getBoundingClientRect().top;
    if (top !== undefined) {
      [this.above, this.view] = [-top, innerHeight];
    }
  };

  /** Scrolls a row into sight. */
  reveal(index: number): void {
    const top = this.body()?.getBoundingClientRect().top;
    if (top !== undefined && index >= 0) {
      scrollBy({ top: distance(index, top, innerHeight, this.height()), behavior: "instant" });
    }
  }
}
