import { untrack } from "svelte";

import { live } from "./live.svelte";

/** Data of the API that a page shows. Old data stay while new ones are read, and the newest read wins. */
export class Resource<T> {
  data = $state<T>();
  error = $state<unknown>();
  private current: AbortController | undefined;

  constructor(private readonly read: (signal: AbortSignal) => Promise<T>) {}

  load = async (): Promise<void> => {
    this.current?.abort();
    const own = (this.current = new AbortController());
    try {
      const data = await this.read(own.signal);
      if (!own.signal.aborted) {
        this.data = data;
        this.error = undefined;
      }
    } catch (error) {
      if (!own.signal.aborted) {
        this.error = error;
      }
    }
  };

  stop = (): void => this.current?.abort();
}

/** The shortest time between two reads because of news, in milliseconds. */
const PACE = 500;

/**
 * Reads a resource now, and again at news of these topics that `matters` (all of them where it is not given). News that come
 * while it is read, or soon after, share the next read. Without topics nothing is read.
 */
export function readAtNews<T>(
  resource: Resource<T>,
  topics: () => string[],
  matters: (news: unknown) => boolean = () => true,
): void {
  // A text, so that the effect does not depend on what else the topics are made from.
  const wanted = $derived(topics().join(" "));
  $effect(() => {
    if (wanted === "") {
      return;
    }
    const followed = wanted.split(" ");
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    let isDue = false;
    let isOver = false;
    let began = 0;
    const read = async () => {
      [busy, isDue, began] = [true, false, Date.now()];
      await resource.load();
      if (isOver) {
        return;
      }
      timer = setTimeout(() => {
        busy = false;
        if (isDue) {
          void read();
        }
      }, PACE);
    };
    const news = (message: unknown, opened = Infinity) => {
      if (message === undefined ? began > opened : !matters(message)) {
        return;
      }
      isDue = true;
      if (!busy) {
        void read();
      }
    };
    const stops = followed.map((topic) => live.follow(topic, news));
    untrack(() => void read());
    return () => {
      isOver = true;
      clearTimeout(timer);
      stops.forEach((stop) => stop());
    };
  });
}
