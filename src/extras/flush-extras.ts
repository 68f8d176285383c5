// The extras of `flush`. Each can be left out.

import type { FlushExtra } from '../app/extra.js';
import { openHandOver } from './receivers/hand-over.js';
import type { FlushExtrasConfig } from './settings.js';

const receivers: FlushExtra<FlushExtrasConfig> = ({ config, log, redis, keys }) =>
  openHandOver(redis, keys, config.RECEIVERS_HIGH_WATER, log);

export const FLUSH_EXTRAS: readonly FlushExtra<FlushExtrasConfig>[] = [receivers];
