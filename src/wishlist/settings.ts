// The shop's settings. They are not cached, so that changes take effect immediately.

import type { Store } from '../redis/store.js';
import { writeKey } from '../redis/write.js';

export interface AppSettings {
  readonly autoRemoveAfterPurchase: boolean;
}

export class SettingsStore {
  constructor(private readonly store: Store) {}

  async read(): Promise<AppSettings> {
    const { keys } = this.store;
    const stored = await this.store.call((client) => client.hget(keys.settings, 'autoRemoveAfterPurchase'));
    return { autoRemoveAfterPurchase: stored === '1' };
  }

  async write({ autoRemoveAfterPurchase }: AppSettings): Promise<void> {
    const { keys } = this.store;
    const value = autoRemoveAfterPurchase ? '1' : '0';
    await writeKey(this.store, keys.settings, ['HSET', 'autoRemoveAfterPurchase', value]);
  }
}
