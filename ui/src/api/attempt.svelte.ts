/** An action of the user, and the reason of its last failure. */
export class Attempt {
  failure = $state<unknown>();

  /** Does the work. A failure is kept until the next success. */
  run = async (work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
      this.failure = undefined;
    } catch (error) {
      this.failure = error;
    }
  };
}
