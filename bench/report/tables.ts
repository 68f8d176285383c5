// The results of a run as Markdown tables.

import { measuredFigures } from '../figures.js';
import type { Results } from '../results.js';
import type { Run } from '../sections/latency.js';
import type { GroupResult } from '../sections/slices.js';
import type { Part } from '../servers/target.js';
import { costUs, cpuUs, isDisturbed, medianOf, type Slice } from '../slice.js';

type Row = readonly string[];

/** Marks a figure that includes disturbed slices. */
const MARK = ' *';

/** Every table of this run, and the line that says what it ran on. */
export function tables(results: Results): string {
  const { groups = {}, growth } = results;
  const parts = [
    origin(results),
    goals(results),
    cases(Object.values(groups), ['bare', 'floor', 'visit']),
    cases(growth ? [growth.cases] : [], ['few']),
    latency(results),
    amounts(results),
    questions(results),
    results.leftOut.length > 0 ? `Left out: ${results.leftOut.join('; ')}.` : '',
    disturbed(results),
  ];
  return parts.filter((text) => text !== '').join('\n\n');
}

function origin({ at, commit, machine, settings, minutes }: Results): string {
  const { cpu, cores, memoryGb, kernel, versions } = machine;
  const list = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return (
    `${at.slice(0, 10)}, commit ${commit}, ${settings.starts} starts of ${settings.rounds} rounds, ${minutes.toFixed(0)} minutes. ` +
    `${cores} cores (${cpu}), ${memoryGb} GB, Linux ${kernel}. ${list.join(', ')}.`
  );
}

function goals(results: Results): string {
  const rows = measuredFigures(results).map((figure) => [
    figure.title,
    figure.value + (figure.isDisturbed ? MARK : ''),
    figure.reach,
    figure.reached ? 'yes' : '**no**',
  ]);
  return table(['ratio', 'measured', 'to reach', 'reached'], rows, [1, 2]);
}

/** Every case once, although a reference is measured in several groups. */
function cases(groups: readonly GroupResult[], references: readonly string[]): string {
  const shown = new Set<string>();
  const rows = groups.flatMap((group) =>
    Object.keys(group).flatMap((name) => {
      if (shown.has(name)) return [];
      shown.add(name);
      return [caseRow(group, name, references)];
    }),
  );
  const head = [
    'case',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'server µs',
    'Redis µs',
    'flusher µs',
    'ClickHouse µs',
  ];
  return table(
    [...head, ...references.map((name) => `CPU / ${name}`)],
    rows,
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  );
}

function caseRow(group: GroupResult, name: string, references: readonly string[]): Row {
  const { title = '', slices = [] } = group[name] ?? {};
  const of = (figure: (slice: Slice) => number) => medianOf([slices], figure).value;
  const us = (part: Part) => {
    const value = of((slice) => cpuUs(slice, part));
    return value > 0 ? value.toFixed(1) : '';
  };
  const ratios = references.map((reference) => {
    const other = group[reference]?.slices;
    if (other === undefined) return '';
    const ratio = medianOf([slices, other], (a, b) => costUs(a) / costUs(b));
    return ratio.value.toFixed(2) + (ratio.isDisturbed ? MARK : '');
  });
  return [
    title,
    count(of(({ perSecond }) => perSecond)),
    of(({ p50Ms }) => p50Ms).toFixed(2),
    of(({ p99Ms }) => p99Ms).toFixed(2),
    us('server'),
    us('redis'),
    us('flusher'),
    us('clickhouse'),
    ...ratios,
  ];
}

function latency({ latency: found }: Results): string {
  if (!found) return '';
  const row = (title: string, figure: (run: Run) => number): Row => [
    title,
    ...[found.runs.bare, found.runs.visit].map((runs) => medianOf([runs], figure).value.toFixed(1)),
  ];
  const rows = [
    row('p50', (run) => run.p50Ms),
    row('p99', (run) => run.p99Ms),
    row('longest', (run) => run.maxMs),
    row('sent late by the generator, p99', (run) => run.generatorLateP99Ms),
  ];
  return table([`ms at ${count(found.rate)}/s, open loop`, 'bare uWebSockets.js', 'visit'], rows, [1, 2]);
}

function amounts({ flusher, growth }: Results): string {
  const rows: Row[] = [];
  if (flusher) {
    const { cpu, rows: events } = flusher;
    const us = (part: Part) => (((cpu[part] ?? 0) / events) * 1e6).toFixed(1);
    rows.push(
      ['events flushed; inserted directly', `${count(flusher.flushed)}; ${count(flusher.direct)} rows/s`],
      [
        'CPU per event: flusher; ClickHouse; Redis',
        `${us('flusher')}; ${us('clickhouse')}; ${us('redis')} µs`,
      ],
      ['pending event: its line; in Redis', `${count(flusher.lineBytes)}; ${count(flusher.redisBytes)} B`],
      ['event on disk, parts merged', `${flusher.diskBytes.toFixed(1)} B`],
    );
  }
  if (growth)
    rows.push(
      ['guest with one product in Redis', `${count(growth.guestBytes)} B`],
      ['hash with one field in Redis', `${count(growth.hashBytes)} B`],
    );
  return table(['also', ''], rows, [1]);
}

function questions({ questions: found }: Results): string {
  if (!found) return '';
  const rows = Object.entries(found.ms).map(([view, ms]) => [view, count(ms)]);
  return table([`${count(found.events)} events, ${count(found.visits)} visits`, 'ms'], rows, [1]);
}

function disturbed({ groups = {}, growth }: Results): string {
  const slices = [...Object.values(groups), growth?.cases ?? {}]
    .flatMap((group) => Object.values(group))
    .flatMap((one) => one.slices);
  if (slices.length === 0) return '';
  return (
    `Other processes disturbed ${slices.filter(isDisturbed).length} of ${slices.length} slices. They are left out, ` +
    'except of figures with an asterisk, for which too few would be left.'
  );
}

/** @param right columns of numbers; all but the first if absent */
export function table(head: Row, rows: readonly Row[], right = [...head.keys()].slice(1)): string {
  if (rows.length === 0) return '';
  const line = (cells: Row) => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, column) => (right.includes(column) ? '--:' : ':--'));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}
