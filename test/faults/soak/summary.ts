// What a soak was and how it ended, in one block that can be quoted.

import type { Load } from '../load.js';
import type { Reckoning } from '../reconcile.js';
import { FAULTS } from './faults.js';

export interface Soak {
  readonly minutes: number;
  readonly seed: number;
  /** How often each fault happened, by its name. */
  readonly times: ReadonlyMap<string, number>;
  readonly load: Load;
  readonly reckoning: Reckoning;
}

/** Lines; the first names the soak, the last one is the verdict. */
export function summarize({ minutes, seed, times, load, reckoning }: Soak): string[] {
  const { events, visits, hidden, wrong } = reckoning;
  const all = FAULTS.map(({ name }) => ({ name, n: times.get(name) ?? 0 })).filter(({ n }) => n > 0);
  const isKill = ({ name }: { name: string }) => name.startsWith(KILL);
  const kills = all.filter(isKill).map(({ name, n }) => ({ name: name.slice(KILL.length), n }));
  const others = all.filter((one) => !isKill(one));
  const answers = Object.entries(load.answers).sort();
  const faults = [...load.faults, ...wrong];
  return [
    `soak of ${minutes} min, SEED=${seed}`,
    `requests  ${load.sent}: ${answers.map(([status, n]) => `${n} × ${status}`).join(', ')}; longest ${Math.round(load.longestMs)} ms`,
    `kill -9   ${total(kills)}: ${listed(kills)}`,
    `others    ${total(others)}: ${listed(others)}`,
    `events    ${events.sent} sent, ${events.acknowledged} acknowledged, ${events.shown} shown once, ${hidden} stored twice and shown once`,
    `visits    ${visits.sent} sent, ${visits.acknowledged} acknowledged, ${visits.counted} counted`,
    ...faults.map((fault) => `WRONG     ${fault}`),
    faults.length === 0 ? 'Nothing lost, nothing twice.' : `${faults.length} things are wrong.`,
  ];
}

const KILL = 'kill -9 ';

type Counted = readonly { readonly name: string; readonly n: number }[];

function total(faults: Counted): number {
  return faults.reduce((sum, { n }) => sum + n, 0);
}

function listed(faults: Counted): string {
  return faults.map(({ name, n }) => `${n} × ${name}`).join(', ');
}
