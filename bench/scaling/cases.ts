// Deployments of more than one process, as data: masters of a Redis Cluster and `serve` processes, each under the same load.

import { type Case, visit } from '../cases.js';

export interface Deployment extends Case {
  /** Of a cluster; a cluster of one is asked as one of many is. */
  readonly masters: number;
  readonly workers: number;
}

/** As many for each: batches are large where there is much to do, as they are in production at that size. */
const CONNECTIONS = 128;

function deployment(masters: number, workers: number, more: Partial<Case> = {}): Deployment {
  const name = `${masters}m${workers}s${more.flushes ? 'f' : ''}`;
  const title = `${masters} master${masters > 1 ? 's' : ''}, ${workers} \`serve\`${more.flushes ? ', flushed' : ''}`;
  return { ...visit, ...more, name, title, masters, workers, connections: CONNECTIONS };
}

/** What the others are compared with comes first. */
export const DEPLOYMENTS: readonly [Deployment, ...Deployment[]] = [
  deployment(1, 1),
  deployment(1, 2),
  deployment(1, 4),
  deployment(2, 2),
  deployment(3, 1),
  deployment(3, 4),
];
