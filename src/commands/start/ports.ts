// Ports, looked at before anything starts. Workers share theirs (SO_REUSEPORT), so two that belong to
// different programs would share it too, without an error.

import { type AddressInfo, createServer, type Server } from 'node:net';
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

/**
 * The ports themselves, a free one for each 0, all different. They are free at this moment.
 * @throws StartupError where one can't be had.
 */
export async function claimPorts(wanted: readonly Wanted[]): Promise<number[]> {
  const held = await Promise.allSettled(wanted.map(hold));
  const servers = held.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  const failed = held.find((one) => one.status === 'rejected');
  if (failed) throw failed.reason;
  return ports;
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
