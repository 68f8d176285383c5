// One HTTP request of a test, exactly as given: no header except the body's length, no redirect followed, no
// repetition.

import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { buffer } from 'node:stream/consumers';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  readonly json: any;
}

export type Headers = Readonly<Record<string, string | string[]>>;

interface Asked {
  /** Objects are sent as JSON, texts and buffers unchanged, an array of buffers as chunks. */
  readonly body?: unknown;
  readonly headers?: Headers | undefined;
  /** The agent of the connections; by default each request has its own connection. */
  readonly agent?: Agent;
  readonly from?: string | undefined;
  readonly signal?: AbortSignal;
}

export function ask(port: number, method: string, path: string, asked: Asked = {}): Promise<Answer> {
  const { body, headers = {}, agent = new Agent(), from: localAddress, signal } = asked;
  const chunks = Array.isArray(body) && body.every(Buffer.isBuffer) ? (body as Buffer[]) : undefined;
  const bytes = chunks === undefined && body !== undefined ? toBytes(body) : undefined;
  const framing = {
    ...(bytes === undefined ? {} : { 'content-length': bytes.length }),
    ...(chunks === undefined ? {} : { 'transfer-encoding': 'chunked' }),
  };
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, method, path, agent, localAddress, signal };
    const req = request({ ...options, headers: { ...framing, ...headers } }, (res) => {
      const { statusCode = 0, headers } = res;
      buffer(res).then((whole) => resolve(answerOf(statusCode, headers, whole.toString())), reject);
    });
    req.on('error', reject);
    for (const chunk of chunks ?? []) req.write(chunk);
    req.end(bytes);
  });
}

function answerOf(status: number, headers: IncomingHttpHeaders, text: string): Answer {
  return {
    ...{ status, headers, text },
    get json() {
      return JSON.parse(text);
    },
  };
}

function toBytes(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}
