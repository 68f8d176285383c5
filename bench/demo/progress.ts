// How far it is: a bar on a terminal, a line for every tenth elsewhere.

import { Presets, SingleBar } from 'cli-progress';

export interface Progress {
  /** One more is done. */
  step(note: string): void;
  done(): void;
}

export function createProgress(what: string, total: number, out: NodeJS.WriteStream): Progress {
  return out.isTTY ? bar(what, total, out) : lines(what, total, out);
}

function bar(what: string, total: number, stream: NodeJS.WriteStream): Progress {
  const format = `${what} {bar} {value}/{total} · {note} · {duration_formatted}, {eta_formatted} to go`;
  const shown = new SingleBar(
    { format, stream, hideCursor: true, fps: 10, barsize: 30 },
    Presets.shades_classic,
  );
  shown.start(total, 0, { note: '' });
  return {
    step: (note) => shown.increment(1, { note }),
    done: () => shown.stop(),
  };
}

function lines(what: string, total: number, stream: NodeJS.WriteStream): Progress {
  let done = 0;
  const began = performance.now();
  const tenth = Math.ceil(total / 10);
  return {
    step(note) {
      done += 1;
      if (done % tenth !== 0 && done !== total) return;
      const left = ((performance.now() - began) / 1_000) * (total / done - 1);
      stream.write(`${what} ${done}/${total} · ${note} · ${Math.round(left)} s to go\n`);
    },
    done() {},
  };
}
