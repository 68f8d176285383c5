// A TCP proxy between a test's client and server that fails on purpose: it cuts, delays, splits or freezes
// the data.

import { once } from 'node:events';
import { connect, createServer, type NetConnectOpts, type Socket } from 'node:net';

export interface Proxy {
  readonly port: number;
  readonly url: string;
  readonly cuts: number;
  /** Cuts the connection of the next command that matches `command`, after `bytes` of the reply have passed. */
  cutReplyAfter(bytes: number, command?: RegExp): void;
  /** Cuts each later piece of a reply, with this probability, at a random byte, together with its connection. */
  cutReplies(probability: number): void;
  /** Splits all later data into pieces of so many bytes, each in its own packet; 0 ends this. */
  split(bytes: number): void;
  /** Delays all later data in each direction. */
  delay(ms: number): void;
  /** Limits each direction of each connection. */
  throttle(bytesPerSecond: number): void;
  /** Holds everything back until `thaw`. */
  freeze(): void;
  thaw(): void;
  dropAll(): void;
  /** Later connections go to another server; open ones stay. */
  retarget(url: string): void;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  /** Bytes of reply that may still pass; undefined: no limit. */
  replyBudget: number | undefined;
}

export async function startProxy(
  t: { teardown(close: () => Promise<void>): void },
  url: string,
): Promise<Proxy> {
  let target = targetOf(url);
  const links = new Set<Link>();
  let cut: { bytes: number; command: RegExp } | undefined;
  let cuts = 0;
  let cutProbability = 0;
  let pieceBytes = 0;
  let delayMs = 0;
  let bytesPerMs = 0;
  let thawed: Promise<void> | undefined;
  let thaw = () => {};

  const passer = (deliver: (chunk: Buffer) => void) => {
    let last = Promise.resolve();
    let waiting = 0;
    const enqueue = (chunk: Buffer) => {
      const due = delayMs === 0 ? undefined : new Promise((resolve) => setTimeout(resolve, delayMs));
      waiting++;
      last = last.then(async () => {
        await due;
        await thawed;
        if (pieceBytes > 0) await new Promise(setImmediate);
        if (bytesPerMs > 0) await new Promise((resolve) => setTimeout(resolve, chunk.length / bytesPerMs));
        waiting--;
        deliver(chunk);
      });
    };
    return (chunk: Buffer) => {
      if (pieceBytes > 0) {
        for (let i = 0; i < chunk.length; i += pieceBytes) enqueue(chunk.subarray(i, i + pieceBytes));
      } else if (delayMs === 0 && bytesPerMs === 0 && thawed === undefined && waiting === 0) deliver(chunk);
      else enqueue(chunk);
    };
  };

  const drop = (link: Link) => {
    links.delete(link);
    link.client.destroy();
    link.server.destroy();
  };

  const listener = createServer((client) => {
    const server = connect(target);
    const link: Link = { client, server, replyBudget: undefined };
    links.add(link);
    for (const socket of [client, server]) socket.setNoDelay();
    for (const socket of [client, server]) socket.on('error', () => drop(link)).on('close', () => drop(link));
    client.on(
      'data',
      passer((chunk) => {
        if (cut?.command.test(chunk.toString('latin1'))) {
          link.replyBudget = cut.bytes;
          cut = undefined;
        }
        if (!server.destroyed) server.write(chunk);
      }),
    );
    server.on(
      'data',
      passer((chunk) => {
        if (client.destroyed) return;
        if (link.replyBudget === undefined && Math.random() < cutProbability)
          link.replyBudget = Math.floor(Math.random() * chunk.length);
        if (link.replyBudget === undefined) {
          client.write(chunk);
          return;
        }
        const passing = chunk.subarray(0, link.replyBudget);
        link.replyBudget -= passing.length;
        const finish = () => {
          if (link.replyBudget !== 0) return;
          cuts++;
          drop(link);
        };
        if (passing.length === 0) finish();
        else client.write(passing, finish);
      }),
    );
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as { port: number };
  t.teardown(async () => {
    thaw();
    for (const link of links) drop(link);
    listener.close();
    await once(listener, 'close');
  });

  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    get cuts() {
      return cuts;
    },
    cutReplyAfter(bytes, command = /./s) {
      cut = { bytes, command };
    },
    cutReplies(probability) {
      cutProbability = probability;
    },
    split(bytes) {
      pieceBytes = bytes;
    },
    delay(ms) {
      delayMs = ms;
    },
    throttle(bytesPerSecond) {
      bytesPerMs = bytesPerSecond / 1_000;
    },
    freeze() {
      thawed ??= new Promise((resolve) => {
        thaw = () => {
          thawed = undefined;
          resolve();
        };
      });
    },
    thaw: () => thaw(),
    dropAll() {
      for (const link of links) drop(link);
    },
    retarget(next) {
      target = targetOf(next);
    },
  };
}

function targetOf(url: string): NetConnectOpts {
  const { hostname, port, searchParams } = new URL(url);
  const path = searchParams.get('path');
  return path === null ? { host: hostname, port: Number(port) } : { path };
}
