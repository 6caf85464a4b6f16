import { distance, elements, inSight } from "./window";

/** The rows in sight of a list in the window. Belongs to the component that calls it. */
export class RowsInSight<Row extends { id: string }> {
  private above = $state(0);
  private view = $state(innerHeight);
  private readonly found = $derived.by(() => inSight(this.above, this.view, this.height(), this.rows().length));
  private known: ReadonlyMap<string, number> = new Map();
  /** The index of the first row that is drawn. */
  readonly first = $derived(this.found.first);
  /** The index after the last row that is drawn. */
  readonly last = $derived(this.found.last);
  /** The rows that are drawn, each with the key of its element. */
  readonly drawn = $derived.by(() => {
    const rows = this.rows().slice(this.first, this.last);
    const isHeld = this.body()?.contains(document.activeElement) ?? false;
    this.known = elements(rows.map(({ id }) => id), this.known, isHeld);
    return rows.map((row) => ({ row, key: this.known.get(row.id) }));
  });

  constructor(
    private readonly body: () => HTMLElement | undefined,
    private readonly rows: () => Row[],
    private readonly height: () => number,
  ) {
    $effect(() => {
      // The list may begin elsewhere with other rows.
      void [this.rows().length, this.height()];
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
