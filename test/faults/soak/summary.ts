// What a soak was and how it ended, in one block that can be quoted.

import type { LoginsReport } from '../check-logins.js';
import type { Load } from '../load.js';
import type { LoginTraffic } from '../logins.js';
import type { Reckoning } from '../reconcile.js';

export interface Soak {
  /** Names it: its form, minutes and seed. */
  readonly title: string;
  /** How often each fault happened, by its name. */
  readonly times: ReadonlyMap<string, number>;
  readonly load: Load;
  readonly reckoning: Reckoning;
  readonly logins: LoginTraffic;
  readonly loginsReport: LoginsReport;
  /** In words, one for each identity. */
  readonly lockedOut: readonly string[];
}

/** Lines; the first names the soak, the last one is the verdict. */
export function summarize(soak: Soak): string[] {
  const { title, times, load, reckoning, logins, loginsReport, lockedOut } = soak;
  const { events, visits, hidden, wrong } = reckoning;
  const all = Array.from(times, ([name, n]) => ({ name, n })).sort((a, b) => (a.name < b.name ? -1 : 1));
  const isKill = ({ name }: { name: string }) => name.startsWith(KILL);
  const kills = all.filter(isKill).map(({ name, n }) => ({ name: name.slice(KILL.length), n }));
  const others = all.filter((one) => !isKill(one));
  const answers = Object.entries(load.answers).sort();
  const faults = [...load.faults, ...wrong, ...loginsReport.wrong, ...lockedOut];
  return [
    title,
    `requests  ${load.sent}: ${answers.map(([status, n]) => `${n} × ${status}`).join(', ')}; longest ${Math.round(load.longestMs)} ms`,
    `kill -9   ${total(kills)}: ${listed(kills)}`,
    `others    ${total(others)}: ${listed(others)}`,
    `events    ${events.sent} sent, ${events.acknowledged} acknowledged, ${events.shown} shown once, ${hidden} stored twice and shown once`,
    `visits    ${visits.sent} sent, ${visits.acknowledged} acknowledged, ${visits.counted} counted`,
    `logins    ${Object.entries(logins.logins)
      .map(([did, n]) => `${n} ${did}`)
      .join(', ')}; ${loginsReport.identities} identities of ${loginsReport.profiles} profiles`,
    `theirs    visits ${loginsReport.visits.sent} sent, ${loginsReport.visits.acknowledged} acknowledged, ${loginsReport.visits.counted} counted; ` +
      `items ${loginsReport.items.sent} sent, ${loginsReport.items.acknowledged} acknowledged, ${loginsReport.items.listed} listed`,
    `lock-outs ${lockedOut.length}`,
    ...faults.map((fault) => `WRONG     ${fault}`),
    faults.length === 0
      ? 'Nothing lost, nothing twice, no visitor locked out.'
      : `${faults.length} things are wrong.`,
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
