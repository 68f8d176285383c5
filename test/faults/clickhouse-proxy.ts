// An HTTP proxy before ClickHouse that spoils the inserts it is told to, each in the way it is told. Everything
// else passes as it is.

import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { Scope } from '../harness/redis.js';

export interface Spoiling {
  /** Whether ClickHouse gets the insert. */
  readonly forward: boolean;
  /**
   * What the flusher gets for it ('as it is': this insert is not spoiled, the next one may be); what is not set is
   * ClickHouse's own answer, where there is one.
   */
  readonly answer:
    | 'as it is'
    | 'nothing: the connection closes'
    | 'nothing: the connection stays'
    | 'half a status line'
    | 'a body that ends early'
    | { readonly status: number; readonly code?: number; readonly body: string };
}

export interface ClickHouseProxy {
  readonly url: string;
  /** Inserts that came. */
  readonly inserts: number;
  /** Other requests that came. */
  readonly questions: number;
  /** Inserts that were not spoiled and that the client gave up on before their answer was whole. */
  readonly abandoned: number;
  /** Spoils the next insert. Called again before it came, the one after that. */
  spoil(spoiling: Spoiling): void;
  /** Spoilings that no insert has met yet. */
  readonly waiting: number;
  close(): Promise<void>;
}

/** ClickHouse's body for an error, as version 24 and later write it. */
export const exception = (code: number, text: string, name: string) =>
  `Code: ${code}. DB::Exception: ${text}. (${name}) (version 25.3.1.1 (official build))\n`;

export async function startClickHouseProxy(t: Scope, target: string): Promise<ClickHouseProxy> {
  const spoilings: Spoiling[] = [];
  let inserts = 0;
  let questions = 0;
  let abandoned = 0;

  const server = createServer(async (req, res) => {
    const body = await buffer(req).catch(() => undefined);
    if (body === undefined) return res.destroy();
    const isInsert = decodeURIComponent(req.url ?? '').includes('INSERT') || body.indexOf('INSERT') === 0;
    if (isInsert) inserts++;
    else questions++;
    const spoiling = isInsert ? spoilings.shift() : undefined;
    const isSpoiled = spoiling !== undefined && spoiling.answer !== 'as it is';
    if (isInsert && !isSpoiled)
      res.once('close', () => {
        if (!res.writableFinished) abandoned++;
      });
    if (!isSpoiled) return await pass(target, req, body, res);
    if (spoiling.forward) await pass(target, req, body, undefined);
    spoil(spoiling.answer, res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((done) => server.close(done));
  };
  t.teardown(close);
  return {
    url: at(target, (server.address() as AddressInfo).port),
    get inserts() {
      return inserts;
    },
    get questions() {
      return questions;
    },
    get abandoned() {
      return abandoned;
    },
    get waiting() {
      return spoilings.length;
    },
    spoil: (spoiling) => spoilings.push(spoiling),
    close,
  };
}

/** The target's URL, credentials and all, at another port. */
function at(target: string, port: number): string {
  const url = new URL(target);
  url.host = `127.0.0.1:${port}`;
  return url.href.replace(/\/$/, '');
}

/** Passes a request on; without `res` its answer is read and dropped. */
async function pass(target: string, req: IncomingMessage, body: Buffer, res?: ServerResponse): Promise<void> {
  const { 'transfer-encoding': _, ...headers } = req.headers;
  const onward = request(new URL(req.url ?? '/', new URL(target).origin), {
    method: req.method,
    headers: { ...headers, 'content-length': body.length },
  });
  onward.end(body);
  try {
    const [answer] = (await once(onward, 'response')) as [IncomingMessage];
    if (res === undefined) return void (await buffer(answer));
    res.writeHead(answer.statusCode as number, answer.headers);
    answer.pipe(res);
  } catch {
    res?.destroy();
  }
}

function spoil(answer: Spoiling['answer'], res: ServerResponse): void {
  if (answer === 'nothing: the connection closes') res.destroy();
  else if (answer === 'half a status line') res.socket?.end('HTTP/1.1 2');
  else if (answer === 'a body that ends early') {
    res.socket?.end('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nCode: 1');
  } else if (typeof answer === 'object') {
    const { status, code, body } = answer;
    res.writeHead(status, code === undefined ? {} : { 'x-clickhouse-exception-code': String(code) });
    res.end(body);
  }
}
