// One HTTP request of a test, on a connection that the test chooses.

import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';

interface Answer {
  readonly status: number | undefined;
  readonly connection: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Asked {
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whose connections are used; without one the connection is for this request only. */
  readonly agent?: Agent;
  /** Address that the request comes from. */
  readonly from?: string;
}

export function ask(port: number, method: string, path: string, asked: Asked = {}): Promise<Answer> {
  const { body = '', headers = {}, agent = new Agent(), from } = asked;
  const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) };
  const own = from === undefined ? {} : { localAddress: from };
  const options = {
    host: '127.0.0.1',
    port,
    path,
    method,
    agent,
    headers: { ...length, ...headers },
    ...own,
  };
  return new Promise((resolve, reject) => {
    const take = (answer: IncomingMessage) => {
      const { statusCode: status, headers } = answer;
      text(answer).then((body) => resolve({ status, connection: headers.connection, headers, body }), reject);
    };
    request(options, take).on('error', reject).end(body);
  });
}
