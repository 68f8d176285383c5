// Ports that are set, looked at before anything starts. Workers share theirs (SO_REUSEPORT), so two that belong to
// different programs would share it too, without an error. Where any free port will do, the process that listens on it
// takes it itself: one that was found free here may be another program's by then.

import { createServer, type Server } from 'node:net';
import { StartupError } from '../../errors.js';

/** A port, as the settings name it. */
export interface Wanted {
  readonly host: string;
  /** 0 is any free one. */
  readonly port: number;
  /** The setting to change, for the sentence. */
  readonly setting: string;
}

const SENTENCES: Readonly<Record<string, (wanted: Wanted) => string>> = {
  EADDRINUSE: ({ port, setting }) =>
    `Port ${port} is taken; stop what listens there or set another ${setting}.`,
  EACCES: ({ port, setting }) => `Port ${port} may not be opened by this user; set another ${setting}.`,
  EADDRNOTAVAIL: ({ host }) => `${host} is not an address of this machine; set another HOST.`,
  EAI_AGAIN: ({ host }) => `${host} is not an address of this machine; set another HOST.`,
  ENOTFOUND: ({ host }) => `${host} is not an address of this machine; set another HOST.`,
};

/** @throws StartupError where one can't be had: it is taken, also by another one of these, or its address is not ours. */
export async function checkPorts(wanted: readonly Wanted[]): Promise<void> {
  const held = await Promise.allSettled(wanted.map(hold));
  await Promise.all(
    held.map((one) => one.status === 'fulfilled' && new Promise((done) => one.value.close(done))),
  );
  const failed = held.find((one) => one.status === 'rejected');
  if (failed) throw failed.reason;
}

function hold(wanted: Wanted): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      const sentence = SENTENCES[error.code ?? '']?.(wanted);
      reject(sentence ? new StartupError(sentence) : error);
    });
    server.listen({ host: wanted.host, port: wanted.port, exclusive: true }, () => resolve(server));
  });
}
