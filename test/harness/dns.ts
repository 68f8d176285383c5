// A name server on UDP loopback that knows some names, is silent about others or fails at them, and answers
// that all other names do not exist.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { Scope } from './redis.js';

const HEADER = 12;
const [A, FAILED, NO_SUCH_NAME] = [1, 2, 3];
export const SERVFAIL = 'SERVFAIL';

/** @param answers names -> IPv4 address, SERVFAIL, or null: no answer at all @returns `at` as `address:port` */
export async function startNameServer(t: Scope, answers: Readonly<Record<string, string | null>>) {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  socket.on('message', (query, { port, address }) => {
    const { name, end } = nameIn(query);
    asked.push(name);
    const known = answers[name];
    if (known === null) return;
    const isAddress = known !== undefined && known !== SERVFAIL && query.readUInt16BE(end) === A;
    const code = known === undefined ? NO_SUCH_NAME : known === SERVFAIL ? FAILED : 0;
    const reply = Buffer.concat([query.subarray(0, end + 4), isAddress ? addressRecord(known) : Buffer.of()]);
    reply.writeUInt16BE(0x8180 + code, 2);
    reply.writeUInt16BE(isAddress ? 1 : 0, 6);
    // The answer does not repeat the records after the question (EDNS).
    reply.writeUInt32BE(0, 8);
    socket.send(reply, port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  t.teardown(() => socket.close());
  return { at: `127.0.0.1:${socket.address().port}`, asked };
}

function nameIn(query: Buffer): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let at = HEADER;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}

/** An address for the name in the question, with a lifetime of zero. */
function addressRecord(address: string): Buffer {
  return Buffer.of(0xc0, HEADER, 0, A, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number));
}
