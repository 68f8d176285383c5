// A TCP proxy that fails on purpose, between a client and a server of the tests: it cuts connections at
// a chosen byte of the reply, delays what passes, or freezes and lets go again.

import { once } from 'node:events';
import { connect, createServer, type NetConnectOpts, type Socket } from 'node:net';
import type { Test } from 'tap';

export interface Proxy {
  readonly port: number;
  /** `redis://127.0.0.1:<port>` */
  readonly url: string;
  /** Connections that were cut by `cutReplyAfter`. */
  readonly cuts: number;
  /** Cuts the connection that next sends a command matching `command`, once `bytes` of the reply have passed. */
  cutReplyAfter(bytes: number, command?: RegExp): void;
  /** Milliseconds that everything waits from now on, in each direction. */
  delay(ms: number): void;
  /** Nothing passes until `thaw`; then all that was held back does. */
  freeze(): void;
  thaw(): void;
  /** Drops all connections; new ones are taken. */
  dropAll(): void;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  /** Bytes of reply that may still pass; undefined: all. */
  replyBudget: number | undefined;
}

/** A proxy to a Redis by its URL (TCP or unix socket); closed when `t` ends. */
export async function startProxy(t: Test, url: string): Promise<Proxy> {
  const target = targetOf(url);
  const links = new Set<Link>();
  let cut: { bytes: number; command: RegExp } | undefined;
  let cuts = 0;
  let delayMs = 0;
  let thawed: Promise<void> | undefined;
  let thaw = () => {};

  /** Passes chunks on in order, each after the delay and not while frozen. */
  const passer = (deliver: (chunk: Buffer) => void) => {
    let last = Promise.resolve();
    let waiting = 0;
    return (chunk: Buffer) => {
      if (delayMs === 0 && thawed === undefined && waiting === 0) return deliver(chunk);
      const due = delayMs === 0 ? undefined : new Promise((resolve) => setTimeout(resolve, delayMs));
      waiting++;
      last = last.then(async () => {
        await due;
        await thawed;
        waiting--;
        deliver(chunk);
      });
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
    delay(ms) {
      delayMs = ms;
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
  };
}

function targetOf(url: string): NetConnectOpts {
  const { hostname, port, searchParams } = new URL(url);
  const path = searchParams.get('path');
  return path === null ? { host: hostname, port: Number(port) } : { path };
}
