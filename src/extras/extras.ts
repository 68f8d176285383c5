// The extras of `serve`. Each can be left out.

import type { Extra } from '../app/extra.js';
import { alerts } from './alerts/extra.js';
import { popular } from './popular/extra.js';
import { privacy } from './privacy/extra.js';
import { receivers } from './receivers/extra.js';
import type { ExtrasConfig } from './settings.js';
import { storefront } from './storefront/extra.js';

export const EXTRAS: readonly Extra<ExtrasConfig>[] = [storefront, receivers, alerts, popular, privacy];
