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
import type { DeliverConfig, ReceiversConfig, StoreConfig } from '../../app/settings.js';
import { opened, type Waiting } from '../../app/waiting.js';
import type { Store } from '../../redis/store.js';
import { openSubscribers } from '../alerts/extra.js';
import { Addresses } from './address.js';
import { startDeliverer } from './deliverer.js';
import { Receivers } from './receivers.js';

/** Runs until `close`. @throws StartupError */
export function deliver(config: DeliverConfig, log: Logger, waiting?: Waiting): Promise<Closeable> {
  return withClosers(async (onClose) => {
    const store = await opened(waiting, 'Redis', () =>
      openStore(config, 'wishmeter deliver', log, { timeoutMs: FLUSH_REDIS_TIMEOUT_MS }),
    );
    onClose(() => store.close());
    const { redirects } = openIdentityOnly(
      store,
      config,
      onClose,
      openSubscribers({ store, config, onClose }),
    );
    const receivers = receiversOf(store, config);
    const deliverer = startDeliverer({ store, redirects, receivers, log });
    onClose(() => deliverer.close());
    return {};
  });
}

export interface OpenReceivers extends Closeable {
  readonly store: Store;
  readonly receivers: Receivers;
}

/** @param urls of Redis @throws StartupError */
export function openReceivers(
  config: ReceiversConfig,
  log: Logger,
  urls: readonly string[],
  { name = 'wishmeter receivers', timeoutMs = FLUSH_REDIS_TIMEOUT_MS } = {},
): Promise<OpenReceivers> {
  return withClosers(async (onClose) => {
    const store = await openKnownStore(config, name, log, { urls, timeoutMs });
    onClose(() => store.close());
    return { store, receivers: receiversOf(store, config) };
  });
}

export function receiversOf(store: Store, config: Omit<ReceiversConfig, keyof StoreConfig>): Receivers {
  const addresses = new Addresses(config.RECEIVERS_PRIVATE === 'allow');
  return new Receivers(store, addresses, config.RECEIVERS_HIGH_WATER);
}
