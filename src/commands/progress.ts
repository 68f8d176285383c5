// How far a long command is: a line of the terminal that is written anew, and nothing into a pipe.

import type { Program } from './program.js';

const EVERY_MS = 200;
/** To the line's begin, and empties it. */
const ANEW = '\r\u001b[K';

export interface Progress {
  show(what: string, count: number): void;
  /** The line is empty. */
  end(): void;
}

export function progressOn(stdout: Program<'backup'>['stdout']): Progress {
  let shownAt = 0;
  return {
    show(what, count) {
      const now = performance.now();
      if (!stdout.isTTY || now - shownAt < EVERY_MS) return;
      shownAt = now;
      stdout.write(`${ANEW}${what}${count > 0 ? `: ${count.toLocaleString('en')}` : ''}`);
    },
    end() {
      if (stdout.isTTY) stdout.write(ANEW);
    },
  };
}
