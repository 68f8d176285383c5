// Clients that take their time, that never end, and that leave, by the thousand. They live in a process of their own:
// who measures the good ones beside them must not wait for them.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';

export interface SlowClientsSpec {
  readonly port: number;
  readonly count: number;
}

export interface SlowClientsResult {
  /** Connections that the server ended. */
  readonly ended: number;
  /** Answers to the slow ones, by status. */
  readonly answers: Readonly<Record<string, number>>;
  /** Clients that left in the middle of a body or of an answer. */
  readonly left: number;
}

export interface SlowClients {
  /** They all go. */
  end(): Promise<SlowClientsResult>;
}

const PROCESS = new URL('./slow-clients-process.js', import.meta.url);

/** Resolves when all are connected and each has sent its first bytes. */
export async function startSlowClients(
  t: { teardown(fn: () => void): void },
  spec: SlowClientsSpec,
): Promise<SlowClients> {
  const child = fork(PROCESS, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  await messageOf(child);
  return {
    async end() {
      const told = messageOf(child);
      child.send('end');
      return (await told) as SlowClientsResult;
    },
  };
}

async function messageOf(child: ChildProcess): Promise<unknown> {
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`the slow clients ended with ${code}`);
  });
  failed.catch(() => {}); // it also ends after its last message
  const [message] = await Promise.race([once(child, 'message'), failed]);
  return message;
}
