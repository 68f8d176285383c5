// Opens resources, and closes them in reverse order. Opens Redis for every process.

import type { Logger } from 'pino';
import { StartupError } from '../errors.js';
import { appendFormat, mergeAppender } from '../events/appender.js';
import type { ItemIndex } from '../profiles/item-index.js';
import { openProfiles, type ProfileParts } from '../profiles/open.js';
import { DeploymentLostError } from '../redis/node-markers.js';
import { Store, type StoreOptions } from '../redis/store.js';
import { linkReader, visitFormat } from '../visits/visit-batch.js';
import type { IdentityConfig, StoreConfig } from './settings.js';

export interface Closeable {
  close(): Promise<void>;
}

type Closer = () => Promise<void> | void;

/** Runs the closers in reverse order, at `close` or if `open` fails. */
export async function withClosers<T>(
  open: (onClose: (closer: Closer) => void) => Promise<T>,
): Promise<T & Closeable> {
  const closers: Closer[] = [];
  const close = async () => {
    for (let closer = closers.pop(); closer !== undefined; closer = closers.pop()) await closer();
  };
  try {
    return { ...(await open((closer) => closers.push(closer))), close };
  } catch (error) {
    await close();
    throw error;
  }
}

export async function openStore(
  config: StoreConfig,
  name: string,
  log: Logger,
  more: Pick<StoreOptions, 'timeoutMs'> &
    Partial<Pick<StoreOptions, 'urls' | 'guestsS' | 'confirm' | 'onCall' | 'onReplicated' | 'onError'>>,
): Promise<Store> {
  const onError =
    more.onError ??
    ((error: Error) => {
      if (error instanceof DeploymentLostError) log.error(error.message);
      else log.warn({ err: error }, 'redis connection');
    });
  let isOpen = false;
  const store = await Store.open({
    urls: config.REDIS_URL,
    name,
    keyPrefix: config.KEY_PREFIX,
    replicas: config.REDIS_REPLICAS,
    ...more,
    onError(error) {
      // Until the store is open, the caller reports errors.
      if (isOpen || error instanceof DeploymentLostError) onError(error);
    },
  });
  isOpen = true;
  return store;
}

/** Opens a Redis that has a deployment, and never creates one. @throws StartupError */
export function openKnownStore(
  config: StoreConfig,
  name: string,
  log: Logger,
  {
    urls,
    timeoutMs = FLUSH_REDIS_TIMEOUT_MS,
  }: { readonly urls: readonly string[]; readonly timeoutMs?: number },
): Promise<Store> {
  return openStore(config, name, log, {
    urls,
    timeoutMs,
    confirm(salt) {
      if (salt === undefined)
        throw new StartupError('Redis holds no data of wishmeter under this KEY_PREFIX.');
    },
    onError: () => {},
  });
}

/** Opens identities for a process other than `serve`, without metrics and visit log. */
export function openIdentityOnly(
  store: Store,
  config: Omit<IdentityConfig, keyof StoreConfig>,
  onClose: (closer: Closer) => void,
  itemIndexes: readonly ItemIndex[],
): ProfileParts {
  const visits = store.batcher(
    visitFormat({ keys: store.keys, maxProducts: config.MAX_PRODUCTS, guestsS: store.guestsS }),
  );
  onClose(() => visits.close());
  const appends = store.batcher(appendFormat(store, Number.MAX_SAFE_INTEGER));
  onClose(() => appends.close());
  const limits = {
    products: config.MAX_PRODUCTS,
    items: config.MAX_ITEMS,
    itemBytes: config.MAX_ITEMS_BYTES,
  };
  return openProfiles({
    store,
    limits,
    itemIndexes,
    askLink: linkReader(visits),
    appendMerge: mergeAppender(appends),
  });
}

/** Longer than the time-out of requests, because a page of a batch has up to a megabyte. */
export const FLUSH_REDIS_TIMEOUT_MS = 10_000;
