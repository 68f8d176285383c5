// `wishmeter start`: runs everything on this machine, and restarts children that die.
//
//   folder ──▶ lock ──▶ processes ──▶ ready ──first signal──▶ shutdown in order
//                └─────────┴─────────────┴──second signal──▶ SIGKILL to all

import type { Program } from '../program.js';
import { apiKeyFile, dashboardTokenFile } from './api-key.js';
import { banner } from './banner.js';
import { Children } from './children.js';
import { makeFolder } from './folder.js';
import { lockFolder } from './lock.js';
import { type Running, startProcesses, stopOrder } from './processes.js';
import { shutdown } from './shutdown.js';

/** @throws StartupError if a process can't start, after stopping the others */
export async function start(program: Program<'start'>): Promise<number> {
  const { config, env, log, stdout } = program;
  const began = performance.now();
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
    const chosen = { HOST: config.HOST, DRAIN_MS: String(config.DRAIN_MS), LOG_LEVEL: config.LOG_LEVEL };
    const starting = startProcesses(config, { ...env, ...chosen }, children);
    starting.catch(() => {}); // may reject after a signal
    const running = await Promise.race([starting, stopped.then(() => undefined)]);
    if (running) announce(program, running, performance.now() - began);
    const signal = await stopped;
    if (stdout.isTTY) stdout.write('\nStopping; again to stop at once.\n');
    log.info({ signal }, 'stopping');
  } catch (error) {
    await end();
    throw error;
  }
  const code = await end();
  log.info({ code }, 'stopped');
  return code;
}

/** Shows secrets on a terminal, never in the log. */
function announce(
  { config, log, ready, stdout, version }: Program<'start'>,
  running: Running,
  afterMs: number,
): void {
  const url = httpUrl(config.HOST, running.port) + config.BASE_PATH;
  const clickhouseUrl = new URL(running.clickhouseUrl).origin; // without credentials
  const dashboardUrl = httpUrl(config.HOST, running.dashboardPort);
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
    const files = {
      ...(config.API_KEYS.length > 0 ? {} : { keyFile: apiKeyFile(config.DATA_DIR) }),
      ...(config.DASHBOARD_TOKEN ? {} : { dashboardTokenFile: dashboardTokenFile(config.DATA_DIR) }),
    };
    log.info({ url, clickhouseUrl, dashboardUrl, ...files, afterMs: Math.round(afterMs) }, 'ready');
  }
  ready({ url, clickhouseUrl, dashboardUrl });
}

function httpUrl(host: string, port: number): string {
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${port}`;
}
