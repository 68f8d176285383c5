// One HTTP request of a test, on a connection that the test chooses.

import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';

interface Answer {
  readonly status: number | undefined;
  readonly connection: string | undefined;
  readonly body: string;
}

/** @param agent without one the connection is for this request only @param from address that the request comes from */
export function ask(
  port: number,
  agent: Agent | undefined,
  method: string,
  path: string,
  body = '',
  headers: Readonly<Record<string, string>> = {},
  from?: string,
): Promise<Answer> {
  const own = from === undefined ? {} : { localAddress: from };
  return new Promise((resolve, reject) => {
    const take = (answer: IncomingMessage) => {
      const { statusCode: status, headers } = answer;
      text(answer).then((body) => resolve({ status, connection: headers.connection, body }), reject);
    };
    const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) };
    request(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        agent: agent ?? new Agent(),
        headers: { ...length, ...headers },
        ...own,
      },
      take,
    )
      .on('error', reject)
      .end(body);
  });
}
