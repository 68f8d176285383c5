// What the programs here (main and compare) have in common: a scratch folder that goes with the process,
// one sentence on stderr where something fails, and an exit code.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where results are kept; not committed. */
export const RESULTS = fileURLToPath(new URL('../../bench/results/', import.meta.url));

/**
 * Runs to its end and exits with the code that comes out: 1 where it throws or is interrupted. Servers that are still
 * running then end with this process (src/extras/embedded/child.ts).
 */
export async function runProgram(name: string, main: (dir: string) => Promise<number>): Promise<never> {
  const dir = mkdtempSync(join(tmpdir(), 'wm-bench-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));
  try {
    process.exit(await main(dir));
  } catch (error) {
    process.stderr.write(`${name}: ${(error as Error).message}\n`);
    process.exit(1);
  }
}
