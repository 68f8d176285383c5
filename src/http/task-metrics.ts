// Counts and logs failures of background work.

import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { ServiceError } from '../errors.js';
import { counterBy } from '../metrics/counter-by.js';

const TASKS = ['request', 'erasure', 'merge', 'product', 'sweep'] as const;
export type Task = (typeof TASKS)[number];

export function reportFailures(registry: Registry, log: Logger): (task: Task, error: Error) => void {
  const count = counterBy(registry, {
    name: 'wishmeter_task_failures_total',
    help: 'Failed background tasks, which are retried: the `request` of a compliance webhook, an interrupted `erasure` or `merge`, alerts of a `product`, the `sweep` of what expired guests left',
    label: 'task',
    values: TASKS,
  });
  return (task, error) => {
    count(task);
    if (!(error instanceof ServiceError))
      log.error({ err: error, task }, 'a task failed and will be tried again');
  };
}
