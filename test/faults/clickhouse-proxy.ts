// An HTTP proxy in front of ClickHouse that spoils chosen statements. It passes everything else unchanged.

import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { listen } from '../harness/listen.js';
import type { Scope } from '../harness/redis.js';

export interface Spoiling {
  readonly forward: boolean;
  readonly answer:
    | 'nothing: the connection closes'
    | 'nothing: the connection stays'
    | 'half a status line'
    | 'a body that ends early'
    | { readonly status: number; readonly code?: number; readonly body: string };
}

export interface ClickHouseProxy {
  /** The target's URL with its credentials, but another port. */
  readonly url: string;
  readonly inserts: number;
  /** Statements that were not spoiled, and whose client gave up before the answer was complete. */
  readonly abandoned: number;
  /** Spoils the next statement. Calls add up: each spoils one more statement. */
  spoil(spoiling: Spoiling): void;
  readonly waiting: number;
}

/** ClickHouse's body for an error, as version 24 and later write it. */
export const exception = (code: number, text: string, name: string) =>
  `Code: ${code}. DB::Exception: ${text}. (${name}) (version 25.3.1.1 (official build))\n`;

export async function startClickHouseProxy(
  t: Scope,
  target: string,
  text = 'INSERT',
): Promise<ClickHouseProxy> {
  const spoilings: Spoiling[] = [];
  let inserts = 0;
  let abandoned = 0;

  const server = createServer(async (req, res) => {
    const body = await buffer(req).catch(() => undefined);
    if (body === undefined) return res.destroy();
    const isInsert = decodeURIComponent(req.url ?? '').includes(text) || body.subarray(0, 200).includes(text);
    if (isInsert) inserts++;
    const spoiling = isInsert ? spoilings.shift() : undefined;
    if (isInsert && spoiling === undefined)
      res.once('close', () => {
        if (!res.writableFinished) abandoned++;
      });
    if (spoiling === undefined) return await pass(target, req, body, res);
    if (spoiling.forward) await pass(target, req, body, undefined);
    spoil(spoiling.answer, res);
  });
  const url = new URL(target);
  url.host = `127.0.0.1:${await listen(t, server)}`;
  return {
    url: url.href.replace(/\/$/, ''),
    get inserts() {
      return inserts;
    },
    get abandoned() {
      return abandoned;
    },
    get waiting() {
      return spoilings.length;
    },
    spoil: (spoiling) => spoilings.push(spoiling),
  };
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
