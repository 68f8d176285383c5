// Everything that one run measured. A section that did not run is missing. Kept as JSON in bench/results/.

import type { GroupName } from './cases.js';
import type { Machine } from './machine.js';
import type { Flusher } from './sections/flusher.js';
import type { Growth } from './sections/growth.js';
import type { Latency } from './sections/latency.js';
import type { Questions } from './sections/questions.js';
import type { GroupResult } from './sections/slices.js';
import type { BenchSettings } from './settings.js';

export interface Results {
  /** ISO 8601. */
  readonly at: string;
  /** The commit that was measured, with `+` if the tree had other changes. */
  readonly commit: string;
  readonly machine: Machine;
  readonly settings: BenchSettings;
  /** Minutes that the run took. */
  readonly minutes: number;
  /** Cases that could not run, each with the reason. */
  readonly leftOut: readonly string[];
  readonly groups?: Partial<Readonly<Record<GroupName, GroupResult>>>;
  readonly latency?: Latency;
  readonly flusher?: Flusher;
  readonly growth?: Growth;
  readonly questions?: Questions;
}
