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
