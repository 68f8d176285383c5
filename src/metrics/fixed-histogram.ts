// A histogram for the hot path: an observation increments a number in an array. (prom-client's makes objects and a text
// of the labels.)

import type { Metric, Registry } from 'prom-client';

export const SECONDS_BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
] as const;

export interface HistogramSpec<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
}

export class HistogramSeries {
  readonly labels: Readonly<Record<string, string>>;
  readonly #buckets: readonly number[];
  /** Counts by bucket, including +Inf; then the sum of the values. */
  readonly #counts: Float64Array;

  constructor(labels: Readonly<Record<string, string>>, buckets: readonly number[]) {
    this.labels = labels;
    this.#buckets = buckets;
    this.#counts = new Float64Array(buckets.length + 2);
  }

  observe(value: number): void {
    const buckets = this.#buckets;
    const counts = this.#counts;
    let i = 0;
    while (i < buckets.length && value > (buckets[i] as number)) i++;
    counts[i] = (counts[i] as number) + 1;
    const sum = buckets.length + 1;
    counts[sum] = (counts[sum] as number) + value;
  }

  /** Samples are cumulative. Labels without observations have none. */
  samples(name: string): { metricName: string; labels: Record<string, string | number>; value: number }[] {
    const buckets = this.#buckets;
    const bounds = [...buckets, '+Inf'];
    let count = 0;
    const samples = bounds.map((le, i) => {
      count += this.#counts[i] as number;
      return { metricName: `${name}_bucket`, labels: { le, ...this.labels }, value: count };
    });
    if (count === 0 && Object.keys(this.labels).length > 0) return [];
    const sum = this.#counts[buckets.length + 1] as number;
    return [
      ...samples,
      { metricName: `${name}_sum`, labels: this.labels, value: sum },
      { metricName: `${name}_count`, labels: this.labels, value: count },
    ];
  }
}

export class FixedHistogram<Label extends string = never> {
  readonly #spec: HistogramSpec<Label>;
  /** The map is bounded, because labels come from code, never from a caller. */
  readonly #series = new Map<string, HistogramSeries>();

  constructor(registry: Registry, spec: HistogramSpec<Label>) {
    this.#spec = spec;
    const { name, help } = spec;
    const head = { name, help, type: 'histogram', aggregator: 'sum' };
    // The registry uses only these members.
    const metric = { ...head, get: async () => ({ ...head, values: this.#samples() }) };
    registry.registerMetric(metric as unknown as Metric);
  }

  /** On the hot path, keep the returned series. @param values in the order of the labels */
  series(...values: readonly string[]): HistogramSeries {
    const key = values.join('\n');
    let series = this.#series.get(key);
    if (series === undefined) {
      const { labels, buckets } = this.#spec;
      const named = Object.fromEntries(labels.map((label, i) => [label, values[i] as string]));
      series = new HistogramSeries(named, buckets);
      this.#series.set(key, series);
    }
    return series;
  }

  #samples() {
    return [...this.#series.values()].flatMap((series) => series.samples(this.#spec.name));
  }
}
