// Results -> Markdown.

import { against, measuredFigures } from '../figures.js';
import type { Results } from '../results.js';
import type { Part } from '../servers/target.js';

type Row = readonly string[];

/** Every table, with a heading where there are several things to tell apart. */
export function tables(results: Results): string {
  return [figures(results), throughput(results), rest(results), knee(results), views(results), on(results)]
    .filter((text) => text !== '')
    .join('\n\n');
}

function figures(results: Results): string {
  const rows = measuredFigures(results).map(({ title, value, reach, reached }) => [
    title,
    value,
    reach,
    reached ? 'yes' : '**no**',
  ]);
  return table(['figure', 'measured', 'to reach', 'reached'], rows, [1, 2]);
}

function throughput({ throughput: cases }: Results): string {
  if (!cases || Object.keys(cases).length === 0) return '';
  const { bare, fastify, 'webdis-hincrby': hincrby } = cases;
  const tenths = (value: number | undefined) => (value === undefined ? '' : value.toFixed(1));
  const rows = Object.values(cases).map((one) => {
    const cpu = (part: Part) => tenths(one.cpuUs[part]);
    return [
      one.title,
      count(one.perSecond),
      one.p50Ms.toFixed(2),
      one.p99Ms.toFixed(2),
      cpu('server'),
      cpu('redis'),
      tenths(sum(one.cpuUs.flusher, one.cpuUs.clickhouse)),
      tenths(one.perCall),
      against(one, bare),
      against(one, hincrby),
      against(one, fastify),
    ];
  });
  const head = [
    'case',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'server µs',
    'Redis µs',
    'flusher and ClickHouse µs',
    'per Redis call',
    '/ bare',
    '/ webdis HINCRBY',
    '/ Fastify',
  ];
  return table(head, rows, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

function rest({ latency, flusher, crowd }: Results): string {
  const rows: Row[] = [];
  if (latency) {
    for (const [name, one] of Object.entries(latency.cases)) {
      rows.push([
        `${name} at ${count(latency.rate)}/s, open loop: p50, p99, most`,
        `${one.p50Ms.toFixed(2)}, ${one.p99Ms.toFixed(2)}, ${one.maxMs.toFixed(1)} ms`,
      ]);
    }
    rows.push([
      'the generator itself late by, p99 of the worst round',
      `${latency.generatorLateP99Ms.toFixed(2)} ms`,
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
  if (crowd) {
    const { few, many, visitors } = crowd;
    rows.push(
      ['visits with 10,000 visitors in Redis', `${count(few.perSecond)}/s, p99 ${few.p99Ms.toFixed(2)} ms`],
      [`visits with ${count(visitors)}`, `${count(many.perSecond)}/s, p99 ${many.p99Ms.toFixed(2)} ms`],
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

function views({ views: found }: Results): string {
  if (!found) return '';
  const [first] = Object.values(found.ms);
  const names = Object.keys(first ?? {});
  const rows = Object.entries(found.ms).map(([amount, ms]) => [
    count(Number(amount)),
    ...names.map((name) => (ms as Record<string, number>)[name]?.toFixed(0) ?? ''),
  ]);
  return table(['rows', ...names.map((name) => `${name} ms`)], rows, [0, 1, 2, 3]);
}

function on({ at, commit, machine, settings }: Results): string {
  const { cpu, cores, memoryGb, kernel, versions } = machine;
  const list = Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ');
  return (
    `${at.slice(0, 10)}, commit ${commit}, ${settings.rounds} rounds of ${settings.seconds} s. ` +
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

function sum(...values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : known.reduce((a, b) => a + b, 0);
}
