// How long and how much: QUICK=1 for a look, the defaults for figures that may be quoted.

export interface BenchSettings {
  readonly quick: boolean;
  /** Interleaved rounds per case; medians are reported. */
  readonly rounds: number;
  /** Seconds of load in a round. */
  readonly seconds: number;
  /** Visitors that the load comes from. */
  readonly visitors: number;
  /** Visitors for what is measured "with a million visitors". */
  readonly crowd: number;
  /** Events for the flusher's ceiling, memory and disk. */
  readonly events: number;
  /** Rows for the analysts' views: few and many. */
  readonly rows: readonly [number, number];
  /** Which sections and cases run: those whose name has a match. */
  readonly only: RegExp | undefined;
}

/** @throws where a setting makes no sense */
export function readSettings(env: NodeJS.ProcessEnv): BenchSettings {
  const quick = (env.QUICK ?? '') !== '' && env.QUICK !== '0';
  const number = (name: string, fallback: number) => {
    const value = Number(env[name] || fallback);
    if (!Number.isInteger(value) || value < 1) throw new Error(`${name} must be a whole number from 1 up`);
    return value;
  };
  return {
    quick,
    rounds: number('ROUNDS', quick ? 1 : 5),
    seconds: number('SECONDS', quick ? 1 : 3),
    visitors: quick ? 20_000 : 100_000,
    crowd: quick ? 100_000 : 1_000_000,
    events: quick ? 100_000 : 1_000_000,
    rows: quick ? [10_000, 1_000_000] : [10_000, 10_000_000],
    only: env.ONLY ? new RegExp(env.ONLY) : undefined,
  };
}
