// Counts and logs failures of background work.

import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { ServiceError } from '../errors.js';
import { counterBy } from '../metrics/counter-by.js';

export type OnFailed = (error: Error) => void;

/** @returns a function that is called with each task before it first runs, so that its count is shown from 0 */
export function reportFailures(registry: Registry, log: Logger): (task: string) => OnFailed {
  const count = counterBy<string>(registry, {
    name: 'wishmeter_task_failures_total',
    help: 'Failed background tasks, which are retried: an interrupted `erasure` or `merge`, the `sweep` after expired guests, and tasks of extras',
    label: 'task',
    values: [],
  });
  return (task) => {
    count(task, 0);
    return (error) => {
      count(task);
      if (!(error instanceof ServiceError))
        log.error({ err: error, task }, 'a task failed and will be tried again');
    };
  };
}
