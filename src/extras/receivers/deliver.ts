// Composes `wishmeter deliver` and `wishmeter receivers`.

import type { Logger } from 'pino';
import {
  type Closeable,
  FLUSH_REDIS_TIMEOUT_MS,
  openIdentityOnly,
  openKnownStore,
  openStore,
  withClosers,
} from '../../app/opening.js';
import type { StoreConfig } from '../../app/settings.js';
import { opened, type Waiting } from '../../app/waiting.js';
import { openItemIndexes } from '../item-indexes.js';
import type { DeliverConfig, ReceiversConfig } from '../settings.js';
import { startDeliverer } from './deliverer.js';
import { Receivers } from './receivers.js';

/** Runs until `close`. @throws StartupError */
export function deliver(config: DeliverConfig, log: Logger, waiting?: Waiting): Promise<Closeable> {
  return withClosers(async (onClose) => {
    const store = await opened(waiting, 'Redis', () =>
      openStore(config, 'wishmeter deliver', log, { timeoutMs: FLUSH_REDIS_TIMEOUT_MS }),
    );
    onClose(() => store.close());
    const itemIndexes = openItemIndexes({ store, config, onClose });
    const { locator } = openIdentityOnly(store, config, onClose, itemIndexes);
    const deliverer = startDeliverer({ store, locator, receivers: new Receivers(store, config, log), log });
    onClose(() => deliverer.close());
    return {};
  });
}

export type OpenReceivers = Awaited<ReturnType<typeof openReceivers>>;

/** @param urls of Redis @throws StartupError */
export async function openReceivers(
  config: StoreConfig & ReceiversConfig,
  log: Logger,
  urls: readonly string[],
  { name = 'wishmeter receivers', timeoutMs = FLUSH_REDIS_TIMEOUT_MS } = {},
) {
  const store = await openKnownStore(config, name, log, { urls, timeoutMs });
  return { store, receivers: new Receivers(store, config, log), close: async () => store.close() };
}
