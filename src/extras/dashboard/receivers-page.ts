// Data for the page of receivers. The browser gets only the host of a receiver's URL, because many tools have a secret
// in the path.

import type { Logger } from 'pino';
import { ServiceError } from '../../errors.js';
import type { QueueStatus } from '../receivers/queue.js';
import type { Receiver } from '../receivers/receiver.js';
import type { Receivers } from '../receivers/receivers.js';

type Answer = readonly [status: number, body: object];

export class ReceiversPage {
  constructor(
    private readonly open: (() => Promise<Receivers>) | undefined,
    private readonly log: Logger,
  ) {}

  list(): Promise<Answer> {
    return this.#answer(async (receivers) => {
      const all = await receivers.list();
      return {
        receivers: await Promise.all(all.map(async (one) => describe(one, await receivers.statusOf(one.id)))),
      };
    });
  }

  test(id: string): Promise<Answer> {
    return this.#answer((receivers) => receivers.test(id));
  }

  async #answer(act: (receivers: Receivers) => Promise<object>): Promise<Answer> {
    if (this.open === undefined)
      return [503, { error: 'Receivers are not shown here: the dashboard was started without REDIS_URL.' }];
    try {
      return [200, await act(await this.open())];
    } catch (error) {
      if (error instanceof ServiceError && error.code === 'not_found') return [404, { error: error.message }];
      this.log.warn({ err: error }, 'receivers were not read');
      return [
        503,
        { error: 'Redis does not answer, or has no data of this shop; the log has why.', away: true },
      ];
    }
  }
}

function describe({ id, url, types, isEnabled, disabledWhy }: Receiver, status: QueueStatus): object {
  return {
    id,
    host: new URL(url).host,
    types,
    state: isEnabled ? 'on' : disabledWhy === undefined ? 'paused' : 'disabled',
    why: disabledWhy ?? null,
    delivered: status.inHour.delivered,
    failures: status.inHour.failures,
    pending: status.pending,
    lastSuccessAt: status.lastSuccessAt,
    lastFailureAt: status.lastFailureAt,
    lastError: status.lastError,
  };
}
