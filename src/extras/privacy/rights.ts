// Composes the commands for visitors' rights.

import type { Logger } from 'pino';
import { type Closeable, openIdentityOnly, openKnownStore, withClosers } from '../../app/opening.js';
import { VisitorRowReader } from '../../clickhouse/visitor-rows.js';
import type { Eraser } from '../../profiles/eraser.js';
import type { FindNamed } from '../../profiles/named-visitor.js';
import { openItemIndexes } from '../item-indexes.js';
import type { RightsConfig } from '../settings.js';
import { Compliance } from './compliance.js';
import { Exporter } from './exporter.js';

export interface Rights extends Closeable {
  readonly compliance: Compliance;
  readonly findNamed: FindNamed;
  readonly eraser: Eraser;
  readonly exporter: Exporter;
}

export function openRights(
  config: RightsConfig,
  log: Logger,
  urls: readonly string[],
  clickhouseUrl: string,
): Promise<Rights> {
  return withClosers(async (onClose) => {
    const store = await openKnownStore(config, 'wishmeter', log, { urls });
    onClose(() => store.close());
    const identity = openIdentityOnly(store, config, onClose, openItemIndexes({ store, config, onClose }));
    const rows = new VisitorRowReader(() => clickhouseUrl, config.CLICKHOUSE_DATABASE);
    onClose(() => rows.close());
    return {
      compliance: new Compliance(store, (error) => log.warn(error.message)),
      findNamed: identity.findNamed,
      eraser: identity.eraser,
      exporter: new Exporter({ ...identity, store, readRows: rows.read.bind(rows) }),
    };
  });
}
