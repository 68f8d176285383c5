// `serve` in this process on a free port, and its client, which checks every answer against /openapi.json.

import { pino } from 'pino';
import type { Test } from 'tap';
import type { Extra, Timing } from '../../src/app/extra.js';
import { serve } from '../../src/app/serve.js';
import { type Config, readConfig } from '../../src/config.js';
import { EXTRAS } from '../../src/extras/extras.js';
import { type Answer, ask, type Headers } from './client.js';
import { Dialer } from './dialer.js';
import { allKeys, type Dump, dumpRedis, tracesOf } from './dump.js';
import { Contract } from './openapi.js';
import { startTestCluster, startTestRedis, type TestRedis, type Urls } from './redis.js';
import { type Shop, shopClient } from './shop.js';
import { eventsOf, type Ids, type LoggedVisit, loggedVisits, type Row, rowsOf } from './stream.js';

export const KEY = 'sk_test_0123456789abcdef';
export const TRUSTED = { authorization: `Bearer ${KEY}` };
/** The shop of webhooks and proxy requests. */
export const SHOP_DOMAIN = 'shop.myshopify.com';

export interface TestApp {
  readonly port: number;
  readonly prefix: string;
  readonly shop: Shop;
  send(method: string, path: string, body?: unknown, headers?: Headers): Promise<Answer>;
  post(path: string, body: unknown, headers?: Headers): Promise<Answer>;
  get(path: string, headers?: Headers): Promise<Answer>;
  del(path: string, body?: unknown, headers?: Headers): Promise<Answer>;
  dump(): Promise<Dump>;
  keys(): Promise<string[]>;
  traces(...texts: readonly string[]): Promise<string[]>;
  /** The events in Redis that the flusher has not read yet: all rows, or those of one visitor. */
  rows(): Promise<Row[]>;
  events(who: Ids): Promise<Row[]>;
  visitLog(): Promise<LoggedVisit[][]>;
  /** The text of `/metrics`, made at this moment; over HTTP it may be up to a second old. */
  stats(): Promise<string>;
  /**
   * The value of a figure, by its name without `wishmeter_` and its labels as the text has them; undefined if
   * the text lacks it.
   */
  figure(series: string): Promise<number | undefined>;
  close(): Promise<void>;
}

export interface AppSettings {
  readonly env?: Readonly<Record<string, string>>;
  /** Apps with the same prefix share their data; by default each app has its own. */
  readonly prefix?: string;
  /**
   * By default much longer than the service allows: only tests of time-outs may fail because the machine is
   * busy.
   */
  readonly timeoutMs?: number;
  readonly timing?: Timing;
  readonly extras?: readonly Extra<Config>[];
  /** Gets each line that is logged as an error; without it such a line fails the test. */
  readonly onError?: (line: string) => void;
  /** Gets each other line of the log, parsed. */
  readonly onLog?: (line: Readonly<Record<string, unknown>>) => void;
}

/** Pino's number for the level `error`. */
const ERROR = 50;

let apps = 0;

/**
 * Starts an app on `redis` and closes it when `t` ends. `t` fails if an answer breaks the contract or an
 * error is logged.
 */
export async function startApp(
  t: Test,
  redis: Urls,
  {
    env = {},
    prefix = `t${apps++}`,
    timeoutMs = 20_000,
    timing = {},
    extras = EXTRAS,
    onError,
    onLog,
  }: AppSettings = {},
): Promise<TestApp> {
  const config = readConfig({
    HOST: '127.0.0.1',
    PORT: '0',
    REDIS_URL: redis.urls.join(','),
    KEY_PREFIX: prefix,
    API_KEYS: KEY,
    SHOP_DOMAIN,
    ...env,
  });
  const write = (line: string) => {
    const parsed = JSON.parse(line);
    if (parsed.level < ERROR) onLog?.(parsed);
    else if (onError === undefined) t.fail(`logged as an error: ${line}`);
    else onError(line);
  };
  const log = pino({ level: onLog === undefined ? 'error' : 'info' }, { write });
  const running = await serve({ ...config, REDIS_TIMEOUT_MS: timeoutMs }, log, { extras, timing });
  // The service closes a connection that is idle for 10 s: the agent does not use it again shortly before
  // that.
  const agent = new Dialer({ keepAlive: true, timeout: 5_000 });
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= running.close();
    return closed;
  };
  // Not in `close`, because answers may still arrive after a test has called it.
  t.teardown(() => close().finally(() => agent.destroy()));
  const document = await ask(running.port, 'GET', `${config.BASE_PATH}/openapi.json`, { agent });
  const contract = Contract.of(document.text);
  const send: TestApp['send'] = async (method, path, body, headers) => {
    const answer = await ask(running.port, method, path, { body, headers, agent });
    const fault = contract.fault(method, path, answer);
    if (fault !== undefined) t.fail(fault);
    if (!answer.headers['x-request-id']) t.fail(`${method} ${path}: no X-Request-Id`);
    return answer;
  };
  return {
    port: running.port,
    prefix,
    shop: shopClient(send, TRUSTED),
    send,
    post: (path, body, headers) => send('POST', path, body, headers),
    get: (path, headers) => send('GET', path, undefined, headers),
    del: (path, body, headers) => send('DELETE', path, body, headers),
    dump: () => dumpRedis(redis, prefix),
    keys: () => allKeys(redis, prefix),
    traces: (...texts) => tracesOf(redis, prefix, ...texts),
    rows: () => rowsOf(redis, { prefix }),
    events: (who) => eventsOf(redis, { prefix }, who),
    visitLog: () => loggedVisits(redis, { prefix }),
    stats: () => running.stats(),
    figure: async (series) => sample(await running.stats(), series),
    close,
  };
}

export function sample(text: string, series: string): number | undefined {
  const line = text.split('\n').find((line) => line.startsWith(`wishmeter_${series} `));
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ')));
}

/** Runs the tests on one Redis, and then on a cluster, which starts meanwhile and takes writes after 2 s. */
export function eachRedis(t: Test, tests: (t: Test, redis: TestRedis) => Promise<void>): void {
  const cluster = startTestCluster(t);
  cluster.catch(() => {}); // the test that waits for the cluster fails
  t.test('one Redis', async (t) => tests(t, await startTestRedis(t)));
  t.test('a Redis Cluster of three masters', async (t) => tests(t, await cluster));
}

export function withQuery(path: string, parameters: Readonly<Record<string, string>>): string {
  return `${path}?${new URLSearchParams(parameters)}`;
}
