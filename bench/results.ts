// Everything that one run found out; a section that was not asked for is missing. Kept as JSON in bench/results/.

import type { GroupName } from './cases.js';
import type { Machine } from './machine.js';
import type { Deliveries } from './sections/deliveries.js';
import type { FlusherCeiling } from './sections/flusher.js';
import type { Growth } from './sections/growth.js';
import type { Knee } from './sections/knee.js';
import type { Latency } from './sections/latency.js';
import type { Rights } from './sections/rights.js';
import type { GroupResult } from './sections/slices.js';
import type { Start } from './sections/start.js';
import type { Views } from './sections/views.js';
import type { VisitLog } from './sections/visit-log.js';
import type { BenchSettings } from './settings.js';

export interface Results {
  /** ISO 8601. */
  readonly at: string;
  /** Of the tree that was measured; with `+` where it had changes that were not committed. */
  readonly commit: string;
  readonly machine: Machine;
  readonly settings: Pick<
    BenchSettings,
    'quick' | 'starts' | 'rounds' | 'seconds' | 'visitors' | 'crowds' | 'events'
  >;
  /** Cases in slices, by group. */
  readonly groups?: Partial<Readonly<Record<GroupName, GroupResult>>>;
  readonly latency?: Latency;
  readonly knee?: Knee;
  readonly flusher?: FlusherCeiling;
  readonly visitLog?: VisitLog;
  readonly deliveries?: Deliveries;
  readonly growth?: Growth;
  readonly views?: Views;
  readonly rights?: Rights;
  readonly start?: Start;
}
