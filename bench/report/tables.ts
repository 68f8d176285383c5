// Results -> Markdown.

import { measuredFigures } from '../figures.js';
import type { Results } from '../results.js';
import type { Run } from '../sections/latency.js';
import type { Beside } from '../sections/rights/beside.js';
import type { CaseResult, GroupResult } from '../sections/slices.js';
import type { Part } from '../servers/target.js';
import { cpuUs, isDisturbed, medianOf, type Slice } from '../slice.js';
import { mean } from '../statistics.js';

type Row = readonly string[];

const BOTH = ['server', 'redis'] as const;
/** Beside a figure that disturbed slices are in. */
const MARK = ' *';

/** Every table, with a heading where there are several things to tell apart. */
export function tables(results: Results): string {
  return [
    cases(results),
    growth(results),
    leftOut(results),
    latency(results),
    rest(results),
    knee(results),
    rights(results),
    views(results),
    figures(results),
    on(results),
  ]
    .filter((text) => text !== '')
    .join('\n\n');
}

function figures(results: Results): string {
  const rows = measuredFigures(results).map(({ title, value, isDisturbed: marked, reach, reached }) => [
    title,
    value + (marked ? MARK : ''),
    reach,
    reached ? 'yes' : '**no**',
  ]);
  return table(['figure', 'measured', 'to reach', 'reached'], rows, [1, 2]);
}

/** Every case once: references are measured in several groups. */
function cases({ groups = {} }: Results): string {
  const shown = new Set<string>();
  const rows = Object.values(groups).flatMap((group) =>
    Object.entries(group).flatMap(([name, one]) => {
      if (shown.has(name)) return [];
      shown.add(name);
      return [caseRow(group, one, ['bare', 'floor', 'visit'])];
    }),
  );
  const head = [...CASE_HEAD, 'CPU / bare', 'CPU / floor', 'CPU / visit'];
  return table(head, rows, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

const CASE_HEAD = [
  'case',
  'requests/s',
  'p50 ms',
  'p99 ms',
  'server µs',
  'Redis µs',
  'flusher and ClickHouse µs',
  'per Redis call',
];

/** @param references cases of its group that its CPU is compared with */
function caseRow(
  group: GroupResult,
  { slices, title, perCall }: CaseResult,
  references: readonly string[],
): Row {
  const of = (figure: (slice: Slice) => number) => medianOf([slices], figure).value;
  const us = (...parts: Part[]) => tenths(of((slice) => cpuUs(slice, ...parts)) || undefined);
  const against = references.map((name) => {
    const other = group[name]?.slices;
    if (other === undefined) return '';
    const figure = medianOf([slices, other], (a, b) => cpuUs(a, ...BOTH) / cpuUs(b, ...BOTH));
    return figure.value.toFixed(2) + (figure.isDisturbed ? MARK : '');
  });
  return [
    title,
    count(of(({ perSecond }) => perSecond)),
    of(({ p50Ms }) => p50Ms).toFixed(2),
    of(({ p99Ms }) => p99Ms).toFixed(2),
    us('server'),
    us('redis'),
    us('flusher', 'clickhouse'),
    tenths(perCall),
    ...against,
  ];
}

function growth({ growth: found }: Results): string {
  if (!found) return '';
  const { cases: group, forks } = found;
  const [few = ''] = Object.keys(group);
  const rows = Object.values(group).map((one) => caseRow(group, one, [few]));
  const forkRows = forks.map(({ visitors, redisBytes, forkMs, rewriteSeconds, slowestMs }) => [
    count(visitors),
    count(redisBytes / 1e6),
    forkMs.toFixed(1),
    ((forkMs / redisBytes) * 1e9).toFixed(1),
    count(rewriteSeconds),
    slowestMs.toFixed(1),
  ]);
  const forkHead = [
    'visitors',
    'Redis MB',
    'fork ms',
    'fork ms per GB',
    'rewrite s',
    'slowest visit meanwhile ms',
  ];
  return (
    `${table([...CASE_HEAD, `CPU / ${few}`], rows, [1, 2, 3, 4, 5, 6, 7, 8])}\n\n` +
    table(forkHead, forkRows, [0, 1, 2, 3, 4, 5])
  );
}

function latency({ latency: found }: Results): string {
  if (!found) return '';
  const columns = [found.runs.bare, found.runs.visit];
  const row = (title: string, unit: string, figure: (run: Run) => number | undefined): Row => [
    title,
    ...columns.map((runs) => {
      const known = runs.filter((run) => figure(run) !== undefined);
      return known.length === 0
        ? ''
        : `${medianOf([known], (run) => figure(run) ?? 0).value.toFixed(1)}${unit}`;
    }),
  ];
  const names = (of: (run: Run) => object) =>
    [...new Set(columns.flat().flatMap((run) => Object.keys(of(run))))].sort();
  const rows = [
    row('p50', ' ms', (run) => run.p50Ms),
    row('p99', ' ms', (run) => run.p99Ms),
    row('longest', ' ms', (run) => run.maxMs),
    row('the generator sent late by, p99', ' ms', (run) => run.generatorLateP99Ms),
    row('CPU time taken by others, and stolen', ' %', ({ disturbance: d }) => (d.others + d.stolen) * 100),
    ...names((run) => run.told).map((name) => row(name, ' ms', (run) => run.told[name])),
    // Each run has a cause or two, and its own: medians of them would not add up to a hundred.
    ...names((run) => run.causes).map((name) => [
      `of the slowest hundred: ${name}`,
      ...columns.map((runs) => mean(runs.map((run) => run.causes[name] ?? 0)).toFixed(1)),
    ]),
  ];
  return table([`at ${count(found.rate)}/s, open loop`, 'bare uWebSockets.js', 'visit'], rows, [1, 2]);
}

function leftOut({ groups = {}, growth: found }: Results): string {
  const slices = [...Object.values(groups), found?.cases ?? {}]
    .flatMap((group) => Object.values(group))
    .flatMap((one) => one.slices);
  if (slices.length === 0) return '';
  const disturbed = slices.filter(isDisturbed).length;
  return (
    `${disturbed} of ${slices.length} slices were disturbed by others. They are left out, ` +
    `but for figures with an asterisk, where too few would be left.`
  );
}

function rest({ flusher, visitLog, deliveries }: Results): string {
  const rows: Row[] = [];
  if (deliveries) {
    const { perSecond, cpuUs } = deliveries;
    rows.push(['deliveries of one process; CPU of each', `${count(perSecond)}/s; ${cpuUs.toFixed(0)} µs`]);
  }
  if (visitLog) {
    const { visits, cpu, visitsPerEntry } = visitLog;
    const us = (seconds = 0) => `${((seconds / visits) * 1e6).toFixed(2)} µs`;
    rows.push([
      'CPU per visit flushed: flusher; ClickHouse; Redis (visits in an entry)',
      `${us(cpu.flusher)}; ${us(cpu.clickhouse)}; ${us(cpu.redis)} (${visitsPerEntry.toFixed(1)})`,
    ]);
  }
  if (flusher) {
    const { disk, diskMerged, columns } = flusher;
    const widest = Object.entries(columns).slice(0, 6);
    rows.push(
      ['flusher; direct insert of its blocks', `${count(flusher.flushed)}; ${count(flusher.direct)} rows/s`],
      [
        'bytes of an event in the stream; events in an entry',
        `${flusher.bytesPerEvent.toFixed(0)}; ${flusher.eventsPerEntry.toFixed(1)}`,
      ],
      [`disk per event, as ClickHouse left it (${disk.parts} parts)`, `${disk.bytesPerRow.toFixed(1)} B`],
      [
        `disk per event, after OPTIMIZE FINAL (${diskMerged.parts} parts)`,
        `${diskMerged.bytesPerRow.toFixed(1)} B`,
      ],
      [
        'of that, the largest columns',
        widest.map(([name, bytes]) => `${name} ${bytes.toFixed(1)}`).join(', '),
      ],
    );
  }
  return table(['also', ''], rows, []);
}

function knee({ knee: found }: Results): string {
  if (!found) return '';
  const { above, steps, rate } = found;
  const shown = steps.filter((step) => step.rate === rate || step === above);
  const sentence =
    `The knee is at ${count(rate)} events/s.` +
    (above ? ` At ${count(above.rate)}/s ${above.gaveWay ?? ''}.` : ' No higher rate was tried.');
  const cores = (value: number | undefined) => (value ?? 0).toFixed(2);
  const rows = shown.map((step) => [
    count(step.rate),
    step.p99Ms.toFixed(1),
    step.backlog.map(count).join(' → '),
    ...(['server', 'redis', 'flusher', 'clickhouse', 'load'] as const).map((part) => cores(step.cores[part])),
  ]);
  const head = [
    'events/s',
    'p99 ms',
    'backlog',
    'server',
    'Redis',
    'flusher',
    'ClickHouse',
    'load (cores each)',
  ];
  return `${sentence}\n\n${table(head, rows, [0, 1, 3, 4, 5, 6, 7])}`;
}

function rights({ rights: found }: Results): string {
  if (!found) return '';
  const { shop, webhooks, clickhouse, rate } = found;
  const row = (title: string, figure: (one: Beside) => string): Row => [title, figure(shop)];
  const ms = (value: number) => `${value.toFixed(1)} ms`;
  const periods = (['before', 'meanwhile'] as const).flatMap((when) => [
    row(`visits ${when}: p99; longest`, ({ [when]: { runs } }) => {
      const p99 = medianOf([runs], ({ p99Ms }) => p99Ms).value;
      return `${ms(p99)}; ${ms(Math.max(...runs.map(({ maxMs }) => maxMs)))}`;
    }),
    row(`${when}: Redis's longest pause, by its slowlog and latency monitor`, (one) => ms(one[when].pauseMs)),
    row(
      `${when}: a PING every ms: p99.9; longest`,
      ({ [when]: { pings } }) => `${ms(pings.p999Ms)}; ${ms(pings.longestMs)}`,
    ),
  ]);
  const rows = [
    row('time', ({ seconds }) => `${seconds.toFixed(1)} s`),
    row("Redis's CPU, without the visits'", ({ redisCpu }) => `${redisCpu.toFixed(1)} s`),
    ...periods,
    row('visits that were not answered well meanwhile', ({ meanwhile: { runs } }) => {
      const sum = (figure: (run: (typeof runs)[number]) => number) =>
        runs.reduce((all, run) => all + figure(run), 0);
      return `${count(sum(({ failed }) => failed))} of ${count(sum(({ sent }) => sent))}`;
    }),
  ];
  const also: Row[] = [
    [
      `${webhooks.count} customers/redact webhooks beside the visits: p99; longest`,
      `${ms(webhooks.p99Ms)}; ${ms(webhooks.longestMs)}`,
    ],
    [
      `${count(clickhouse.profiles)} profiles erased from ${count(clickhouse.rows)} rows of ClickHouse`,
      `${clickhouse.seconds.toFixed(1)} s`,
    ],
  ];
  const head = [
    `beside ${count(rate)} visits/s`,
    `a shop of ${count(shop.visitors)} visitors erased, ${count(shop.signedIn)} signed in`,
  ];
  return `${table(head, rows, [1])}\n\n${table(['rights', ''], also, [1])}`;
}

function views({ views: found }: Results): string {
  if (!found) return '';
  const amounts = Object.entries(found.ms) as [string, Readonly<Record<string, number>>][];
  const names = Object.keys(amounts[0]?.[1] ?? {});
  const rows = names.map((name) => [name, ...amounts.map(([, ms]) => ms[name]?.toFixed(0) ?? '')]);
  const head = ['view', ...amounts.map(([amount]) => `${count(Number(amount))} events, ms`)];
  return table(head, rows, [1, 2]);
}

function on({ at, commit, machine, settings }: Results): string {
  const { cpu, cores, memoryGb, kernel, versions } = machine;
  const list = Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ');
  return (
    `${at.slice(0, 10)}, commit ${commit}, ${settings.starts} starts of ${settings.rounds} rounds of ${settings.seconds} s. ` +
    `${cores} cores (${cpu}), ${memoryGb} GB, Linux ${kernel}. ${list}.`
  );
}

function table(head: Row, rows: readonly Row[], right: readonly number[]): string {
  if (rows.length === 0) return '';
  const line = (cells: Row) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (right.includes(i) ? '--:' : ':--'))), ...rows.map(line)].join(
    '\n',
  );
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}

function tenths(value: number | undefined): string {
  return value === undefined ? '' : value.toFixed(1);
}
