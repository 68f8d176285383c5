// How many of something are open, for a process that stops and waits for them.

export class OpenCount {
  #count = 0;
  #onNone: (() => void) | undefined;

  get count(): number {
    return this.#count;
  }

  change(by: 1 | -1): void {
    this.#count += by;
    if (this.#count === 0) this.#onNone?.();
  }

  /** Resolves when none is open. @param timeoutMs milliseconds after which it resolves anyway; never where absent */
  async none(timeoutMs?: number): Promise<void> {
    if (this.#count === 0) return;
    await new Promise<void>((resolve) => {
      const timer = timeoutMs === undefined ? undefined : setTimeout(resolve, timeoutMs);
      this.#onNone = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
