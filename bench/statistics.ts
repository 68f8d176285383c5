// Medians and percentiles.

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
