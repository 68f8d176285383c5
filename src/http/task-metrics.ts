// Failures of work that no caller waits for, and that would fail silently. Each is tried again alone.

import type { Logger } from 'pino';
import { Counter, type Registry } from 'prom-client';
import { ServiceError } from '../errors.js';

const TASKS = ['request', 'erasure', 'merge', 'product', 'sweep'] as const;
type Task = (typeof TASKS)[number];

/** @returns what counts and logs a failed attempt */
export function reportFailures(registry: Registry, log: Logger): (task: Task, error: Error) => void {
  const failures = new Counter({
    name: 'wishmeter_task_failures_total',
    help: 'Failed attempts at work that no caller waits for, each tried again alone: the `request` of a compliance webhook, an interrupted `erasure` or `merge`, the alerts of a `product`, the `sweep` of what leads to guests who have ended',
    labelNames: ['task'] as const,
    registers: [registry],
  });
  for (const task of TASKS) failures.inc({ task }, 0);
  return (task, error) => {
    failures.inc({ task });
    // Redis's failures are logged elsewhere.
    if (!(error instanceof ServiceError))
      log.error({ err: error, task }, 'a task failed and will be tried again');
  };
}
