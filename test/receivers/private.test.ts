// RECEIVERS_PRIVATE holds in each process: what was made while it was `allow` is not reached by a `deliver` without it.

import { pino } from 'pino';
import t from 'tap';
import { deliver, openReceivers } from '../../src/app/deliver.js';
import { readConfig } from '../../src/config.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { openDeliveries, startTool } from './fixtures.js';

t.test('without RECEIVERS_PRIVATE neither `deliver` nor a command reaches a private address', async (t) => {
  const server = await startTestRedis(t);
  const deliveries = await openDeliveries(t, server, 'private');
  const tool = await startTool(t);
  const { id } = await deliveries.receiver(tool);
  await deliveries.send(0, {});
  const config = readConfig({ REDIS_URL: server.urls.join(','), KEY_PREFIX: 'private' });
  const log = pino({ level: 'silent' });
  const delivering = await deliver(config, log);
  t.teardown(() => delivering.close());
  const opened = await openReceivers(config, log, config.REDIS_URL);
  t.teardown(() => opened.close());
  const lastError = () => opened.receivers.standOf(id).then((stand) => stand.lastError);
  t.match(await until('it has failed', lastError), /must begin with https/);
  t.match(await opened.receivers.test(id), { error: /must begin with https/ });
  t.same(tool.delivered, []);
});
