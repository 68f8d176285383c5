// A soak as a picture: rate, p99, backlog and memory over time, with the faults behind them, and its summary. SVG,
// without a browser.

import { init } from 'echarts';
import type { Sample } from './sampler.js';

/** When a fault was there, in seconds since the beginning. */
export interface Span {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

const WIDTH = 1_400;
const PANEL = 200;
const GAP = 50;
const TOP = 50;
const LINE = 17;
/** Characters that fit into one line of the summary. */
const LINE_LENGTH = 190;

/** @param summary its first line is the title */
export function plot(
  [title = '', ...summary]: readonly string[],
  samples: readonly Sample[],
  spans: readonly Span[],
): string {
  const line = (
    panel: number,
    name: string,
    colour: string,
    value: (sample: Sample) => number | undefined,
  ) => ({
    type: 'line' as const,
    name,
    xAxisIndex: panel,
    yAxisIndex: panel,
    showSymbol: false,
    lineStyle: { width: 1.2, color: colour },
    itemStyle: { color: colour },
    data: samples.map((sample) => [sample.at, value(sample) ?? null]),
  });
  const faults = (panel: number) => ({
    type: 'line' as const,
    xAxisIndex: panel,
    yAxisIndex: panel,
    data: [],
    markArea: {
      silent: true,
      itemStyle: { color: '#c0392b', opacity: 0.1 },
      label: {
        show: panel === 0,
        rotate: 90,
        fontSize: 8,
        position: 'insideBottomLeft' as const,
        color: '#777',
      },
      data: spans.map(({ name, from, to }) => [{ name, xAxis: from }, { xAxis: to }]) as [object, object][],
    },
  });
  const names = Object.keys(samples[0]?.memory ?? {});
  const colours = ['#2f6f9f', '#5b9bc6', '#7d5ba6', '#c0392b', '#d08a3c', '#5a8f5a'];
  const lines = summary.flatMap(wrapped);
  const panels = ['answers per second', 'p99, ms', 'events waiting', 'memory, MB'];
  const last = Math.max(1, samples.at(-1)?.at ?? 1);

  const canvas = init(null, null, {
    renderer: 'svg',
    ssr: true,
    width: WIDTH,
    height: TOP + panels.length * (PANEL + GAP) + (lines.length + 1) * LINE,
  });
  canvas.setOption({
    animation: false,
    backgroundColor: '#ffffff',
    title: [
      { text: title, left: 16, top: 10, textStyle: { fontSize: 15 } },
      ...panels.map((text, i) => ({
        text,
        left: 60,
        top: TOP + i * (PANEL + GAP) - 14,
        textStyle: { fontSize: 11, color: '#555' },
      })),
    ],
    graphic: lines.map((text, i) => ({
      type: 'text' as const,
      left: 60,
      top: TOP + panels.length * (PANEL + GAP) + i * LINE,
      style: { text, font: '12px monospace', fill: '#333' },
    })),
    legend: { right: 20, top: 10, itemWidth: 14, textStyle: { fontSize: 10 } },
    grid: panels.map((_, i) => ({ left: 60, right: 20, top: TOP + i * (PANEL + GAP) + 8, height: PANEL })),
    xAxis: panels.map((_, i) => ({ type: 'value' as const, gridIndex: i, min: 0, max: last })),
    yAxis: panels.map((_, i) => ({
      type: i === 1 ? ('log' as const) : ('value' as const),
      gridIndex: i,
      min: i === 1 ? 1 : 0,
    })),
    series: [
      ...panels.map((_, i) => faults(i)),
      line(0, '200', '#2f6f9f', (s) => s.acknowledged),
      line(0, '503', '#d08a3c', (s) => s.refused),
      line(0, 'no answer', '#c0392b', (s) => s.failed),
      line(1, 'p99', '#2f6f9f', (s) => s.p99 && Math.max(1, s.p99)),
      line(2, 'backlog', '#2f6f9f', (s) => s.backlog),
      ...names.map((name, i) => line(3, name, colours[i % colours.length] as string, (s) => s.memory[name])),
    ],
  });
  const svg = canvas.renderToSVGString();
  canvas.dispose();
  return svg;
}

/** The lines that a long one is broken into, after commas. */
function wrapped(line: string): string[] {
  const lines = [''];
  for (const part of line.split(/(?<=, )/)) {
    if (`${lines.at(-1)}${part}`.length > LINE_LENGTH) lines.push(' '.repeat(10));
    lines.push(lines.pop() + part);
  }
  return lines;
}
