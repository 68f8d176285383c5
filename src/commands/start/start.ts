// `wishmeter start`: everything on this machine. A Redis and a ClickHouse where no URL is given, the
// `serve` workers and a flusher, each a child process that is started again when it dies.
//
//   folder ──▶ lock ──▶ processes ──▶ ready ──first signal──▶ shutdown in order
//                └─────────┴─────────────┴──second signal──▶ SIGKILL to all

import type { Config } from '../../config.js';
import type { Program } from '../program.js';
import { banner } from './banner.js';
import { Children } from './children.js';
import { makeFolder } from './folder.js';
import { lockFolder } from './lock.js';
import { type Running, startProcesses, stopOrder } from './processes.js';
import { shutdown } from './shutdown.js';

/** The stand-in for a whole installation is for this machine, unless HOST says otherwise. */
const DEFAULT_HOST = '127.0.0.1';

/** @throws StartupError where something can't be started; nothing is left running then. */
export async function start(program: Program<'start'>): Promise<number> {
  const { env, log, stdout } = program;
  const began = performance.now();
  const onTerminal = stdout.isTTY === true;
  const config = {
    ...program.config,
    HOST: env.HOST?.trim() ? program.config.HOST : DEFAULT_HOST,
    // A person at a terminal is no load balancer: nothing to drain for.
    DRAIN_MS: env.DRAIN_MS?.trim() || !onTerminal ? program.config.DRAIN_MS : 0,
  };
  if (onTerminal && !env.LOG_LEVEL) log.level = 'warn'; // the banner should stay in sight

  const stopped = program.untilStopped();
  await makeFolder(config.DATA_DIR);
  const lock = await lockFolder(config.DATA_DIR, program.pid);
  const children = new Children(log, program.kill);
  program.beforeForcedExit(() => children.kill());

  const end = async () => {
    children.close();
    const outcomes = await shutdown(
      stopOrder(config).map((step) => ({ ...step, run: () => children.stop(step.name) })),
    );
    await lock.release();
    for (const { name: step, result, error } of outcomes) {
      if (result !== 'done') log.error({ step, err: error }, `stopping ${result}`);
    }
    return outcomes.every(({ result }) => result === 'done') ? 0 : 1;
  };

  try {
    const chosen = { HOST: config.HOST, DRAIN_MS: String(config.DRAIN_MS), LOG_LEVEL: log.level };
    const starting = startProcesses(config, { ...env, ...chosen }, children);
    starting.catch(() => {}); // one that is called off fails, and is not awaited
    const running = await Promise.race([starting, stopped.then(() => undefined)]);
    if (running) announce({ ...program, config }, running, performance.now() - began);
    const signal = await stopped;
    if (onTerminal) stdout.write('\nStopping; again to stop at once.\n');
    log.info({ signal }, 'stopping');
  } catch (error) {
    await end();
    throw error;
  }
  const code = await end();
  log.info({ code }, 'stopped');
  return code;
}

/** Says that it is ready: to a person with all there is to know, to a log without the key. */
function announce(
  { config, log, ready, stdout, version }: Program<'start'>,
  running: Running,
  afterMs: number,
): void {
  const url = httpUrl(config, running.port);
  const clickhouseUrl = new URL(running.clickhouseUrl).origin; // without credentials
  const dashboardUrl = httpUrl({ ...config, BASE_PATH: '' }, running.dashboardPort);
  const database = config.CLICKHOUSE_DATABASE;
  if (stdout.isTTY) {
    stdout.write(
      banner({
        ...running,
        version,
        afterMs,
        url,
        clickhouseUrl,
        dashboardUrl,
        database,
        folder: config.DATA_DIR,
      }),
    );
  } else {
    log.info({ url, clickhouseUrl, dashboardUrl, afterMs: Math.round(afterMs) }, 'ready');
  }
  ready({ url, clickhouseUrl, dashboardUrl });
}

/** The URL that a browser on this machine would use. */
function httpUrl({ HOST: host, BASE_PATH }: Config, port: number): string {
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${port}${BASE_PATH}`;
}
