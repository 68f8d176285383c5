// MONITOR on a plain socket: the one of ioredis fails if the first command arrives in one piece with the
// reply before it.

import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/** Calls `listener` with each later command, its name first. @returns a function that stops it */
export async function monitorRedis(url: string, listener: (command: string[]) => void): Promise<() => void> {
  const { hostname, port, password, searchParams } = new URL(url);
  const path = searchParams.get('path');
  const socket = connect(path === null ? { host: hostname, port: Number(port) } : { path });
  await once(socket, 'connect');
  if (password !== '') socket.write(`AUTH ${password}\r\n`);
  socket.write('MONITOR\r\n');
  let replies = password === '' ? 1 : 2;
  await new Promise<void>((begun, failed) => {
    socket.on('error', failed);
    createInterface({ input: socket }).on('line', (line) => {
      if (replies === 0) return listener(wordsOf(line));
      if (!line.startsWith('+OK')) failed(new Error(line));
      if (--replies === 0) begun();
    });
  });
  return () => socket.destroy();
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', a: '\u0007', b: '\b' };

/** `+<time> [<db> <client>] "<word>" "<word>" …`, each word escaped as by Redis's `sdscatrepr`. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word = '']) =>
    word.replace(/\\(?:x([0-9a-f]{2})|(.))/g, (_all, hex: string | undefined, letter: string) =>
      hex === undefined ? (ESCAPES[letter] ?? letter) : String.fromCharCode(Number.parseInt(hex, 16)),
    ),
  );
}
