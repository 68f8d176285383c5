// `serve` processes that share a port and a Redis, as on one machine in production, a restart of them in turn, and clients
// that keep their connections and visit without a rest meanwhile.

import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { MOST_PATIENT_MS, type Part, programPart } from '../faults/service.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

/** @param ports of each; two with the same one share it @param env more settings */
export async function startServes(t: Test, ports: readonly number[], env: NodeJS.ProcessEnv = {}) {
  const redis = await startTestRedis(t);
  const settings = {
    REDIS_URL: redis.url,
    REDIS_TIMEOUT_MS: MOST_PATIENT_MS,
    // As in production: on a busy machine a kept connection may have no request in less, and is told nothing.
    DRAIN_MS: '2000',
    HOST: '127.0.0.1',
  };
  const parts = ports.map((port, i) =>
    programPart(`serve ${i + 1}`, 'serve', { ...settings, PORT: String(port), ...env }),
  );
  t.teardown(() => Promise.all(parts.map((part) => part.stop())));
  await Promise.all(parts.map((part) => part.start()));
  return parts;
}

/** Each is stopped with SIGTERM and started again; then comes the next. No client's request fails. */
export async function restartUnderLoad(t: Test, port: number, parts: readonly Part[]) {
  const load = putUnderLoad(port, 8);
  await load.more(50);
  for (const part of parts) {
    await part.stop();
    await load.more(50);
    await part.start();
  }
  await load.more(50);
  await load.expectExact(t);
}

const REST_MS = 10;

interface UnderLoad {
  /** Resolves when that many more visits were answered. */
  more(visits: number): Promise<void>;
  /** Ends the load. */
  expectExact(t: Test): Promise<void>;
}

/** @param port where the service is reached */
function putUnderLoad(port: number, clients: number): UnderLoad {
  const failures: string[] = [];
  const counts = new Array<number>(clients).fill(0);
  let going = true;
  const visit = async (client: number, agent: Agent) => {
    const body = JSON.stringify({ identity: { sessionId: `client-${client}` }, productHandle: 'x' });
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
        const path = `/product/visit?sessionId=client-${client}&productHandle=x`;
        const { body } = await ask(port, undefined, 'GET', path);
        t.equal(JSON.parse(body).count, sent);
      }
    },
  };
}

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
