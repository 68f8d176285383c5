// Shows progress: on a terminal in one line, in a pipe by a line every `pipeEveryMs`.

import type { Program } from './program.js';

const EVERY_MS = 200;
const ERASE = '\r\u001b[K';
const BAR = 24;

export interface Progress {
  show(what: string, count: number, total?: number): void;
  end(): void;
}

export function progressOn(stdout: Program<'backup'>['stdout'], pipeEveryMs?: number): Progress {
  const isTTY = stdout.isTTY === true;
  const everyMs = isTTY ? EVERY_MS : (pipeEveryMs ?? Number.POSITIVE_INFINITY);
  let shownAt = isTTY ? 0 : performance.now();
  return {
    show(what, count, total) {
      const now = performance.now();
      if (now - shownAt < everyMs) return;
      shownAt = now;
      const text = `${what}${count > 0 ? `: ${count.toLocaleString('en')}` : ''}`;
      const of = total === undefined ? '' : ` of ${total.toLocaleString('en')}`;
      stdout.write(isTTY ? `${ERASE}${bar(count, total)}${text}${of}` : `${text}${of}\n`);
    },
    end() {
      if (isTTY) stdout.write(ERASE);
    },
  };
}

function bar(count: number, total: number | undefined): string {
  if (total === undefined) return '';
  const full = Math.round((count / Math.max(total, 1)) * BAR);
  return `${'█'.repeat(full)}${'░'.repeat(BAR - full)} `;
}
