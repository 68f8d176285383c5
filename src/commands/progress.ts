// Shows the progress of a long command: one line that is rewritten on a terminal, nothing in a pipe.

import type { Program } from './program.js';

const EVERY_MS = 200;
/** Erases the line. */
const ERASE = '\r\u001b[K';

export interface Progress {
  show(what: string, count: number): void;
  /** Erases the line. */
  end(): void;
}

export function progressOn(stdout: Program<'backup'>['stdout']): Progress {
  let shownAt = 0;
  return {
    show(what, count) {
      const now = performance.now();
      if (!stdout.isTTY || now - shownAt < EVERY_MS) return;
      shownAt = now;
      stdout.write(`${ERASE}${what}${count > 0 ? `: ${count.toLocaleString('en')}` : ''}`);
    },
    end() {
      if (stdout.isTTY) stdout.write(ERASE);
    },
  };
}
