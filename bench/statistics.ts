// Means, medians and percentiles.

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** @throws if there is none */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low, high] = [sorted[middle - 1], sorted[middle]];
  if (high === undefined) throw new Error('the median of nothing');
  return sorted.length % 2 === 1 || low === undefined ? high : (low + high) / 2;
}

/** The smallest value that at least this share of all values does not exceed. @param sorted ascending */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/**
 * How far from 1 the median of ratios of equal things may be by chance: three of its standard errors (1.25 σ / √n, as for
 * a normal distribution).
 * @param independent samples: the ratios of one process share their deviation
 */
export function noiseOfMedian(ratios: readonly number[], independent: number): number {
  const logs = ratios.map(Math.log);
  const square = mean(logs.map((log) => log * log)); // their mean is 0
  return 3 * 1.2533 * Math.sqrt(square / independent);
}
