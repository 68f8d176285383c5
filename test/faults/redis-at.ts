// Clients for what a REDIS_URL names, one Redis or a cluster: for tests that look at it beside the service.

import { Cluster, type Redis } from 'ioredis';
import { openRedis } from '../harness/redis.js';

/** A client that goes on through whatever happens to the servers; errors are those of the commands. */
export function connectRedisAt(redisUrl: string): Redis | Cluster {
  const urls = redisUrl.split(',');
  const client = urls.length === 1 ? openRedis(redisUrl) : new Cluster(urls, { slotsRefreshTimeout: 5_000 });
  client.on('error', () => {}); // it is killed all the time
  return client;
}

/** A client of each node. */
export function connectNodesAt(redisUrl: string): Redis[] {
  return redisUrl.split(',').map((url) => {
    const client = openRedis(url);
    client.on('error', () => {});
    return client;
  });
}
