// How far it is: a bar on a terminal, a line for every tenth elsewhere. It ends with the last step.

import { Presets, SingleBar } from 'cli-progress';

export interface Progress {
  /** One more is done. */
  step(note: string): void;
  /** Leaves the terminal as it was, also where not all steps were done. */
  end(): void;
}

export function createProgress(what: string, total: number, out: NodeJS.WriteStream): Progress {
  return out.isTTY ? bar(what, total, out) : lines(what, total, out);
}

function bar(what: string, total: number, stream: NodeJS.WriteStream): Progress {
  const format = `${what} {bar} {value}/{total}{note}`;
  const shown = new SingleBar(
    { format, stream, hideCursor: true, fps: 10, barsize: 30, stopOnComplete: true },
    Presets.shades_classic,
  );
  const secondsLeft = stopwatch(total);
  let done = 0;
  shown.start(total, 0, { note: '' });
  return {
    step(note) {
      done += 1;
      shown.increment(1, { note: ` · ${note} · ${secondsLeft(done)} s to go` });
    },
    end: () => shown.stop(),
  };
}

function lines(what: string, total: number, stream: NodeJS.WriteStream): Progress {
  const secondsLeft = stopwatch(total);
  const tenth = Math.ceil(total / 10);
  let done = 0;
  return {
    step(note) {
      done += 1;
      if (done % tenth !== 0 && done !== total) return;
      stream.write(`${what} ${done}/${total} · ${note} · ${secondsLeft(done)} s to go\n`);
    },
    end() {},
  };
}

function stopwatch(total: number): (done: number) => number {
  const began = performance.now();
  return (done) => Math.round(((performance.now() - began) / 1_000) * (total / done - 1));
}
