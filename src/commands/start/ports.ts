// Checks ports before workers start: a worker could share another program's port unnoticed (SO_REUSEPORT).

import { createServer, type Server } from 'node:net';
import { StartupError } from '../../errors.js';

export interface Wanted {
  readonly host: string;
  readonly port: number;
  readonly setting: string;
}

const notHere = ({ host }: Wanted) => `${host} is not an address of this machine; set another HOST.`;

const SENTENCES: Readonly<Record<string, (wanted: Wanted) => string>> = {
  EADDRINUSE: ({ port, setting }) =>
    `Port ${port} is taken; stop what listens there or set another ${setting}.`,
  EACCES: ({ port, setting }) => `Port ${port} may not be opened by this user; set another ${setting}.`,
  EADDRNOTAVAIL: notHere,
  EAI_AGAIN: notHere,
  ENOTFOUND: notHere,
};

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
