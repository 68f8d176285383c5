// Clients that keep their connections and visit without a rest. At the end every request was answered with 200, and every
// visit is counted once.

import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { until } from '../harness/until.js';

const REST_MS = 2;

export interface UnderLoad {
  /** Resolves when that many more visits were answered. */
  more(visits: number): Promise<void>;
  /** Ends the load. */
  expectExact(t: Test): Promise<void>;
}

/** @param port where the service is reached @param name of these clients, in their session ids */
export function putUnderLoad(port: number, clients: number, name = 'client'): UnderLoad {
  const failures: string[] = [];
  const counts = new Array<number>(clients).fill(0);
  let going = true;
  const visit = async (client: number, agent: Agent) => {
    const body = JSON.stringify({ identity: { sessionId: `${name}-${client}` }, productHandle: 'x' });
    try {
      const answer = await ask(port, agent, 'POST', '/product/visit', body);
      if (answer.status === 200) counts[client] = (counts[client] as number) + 1;
      else failures.push(`${answer.status} ${answer.body}`);
    } catch (error) {
      failures.push(String(error));
    }
  };
  const running = counts.map(async (_, client) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    while (going) {
      await visit(client, agent);
      await sleep(REST_MS);
    }
    agent.destroy();
  });
  const answered = () => counts.reduce((sum, count) => sum + count, 0);
  return {
    async more(visits) {
      const before = answered();
      await until(`${visits} more visits`, () => failures.length > 0 || answered() >= before + visits);
    },
    async expectExact(t) {
      going = false;
      await Promise.all(running);
      t.same(failures, [], 'no request failed');
      for (const [client, sent] of counts.entries()) {
        const path = `/product/visit?sessionId=${name}-${client}&productHandle=x`;
        const { body } = await ask(port, undefined, 'GET', path);
        t.equal(JSON.parse(body).count, sent);
      }
    },
  };
}

export interface Answer {
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
