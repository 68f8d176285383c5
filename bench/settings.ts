// How long and how much: QUICK=1 for a look, the defaults for figures that may be quoted.

export interface BenchSettings {
  readonly quick: boolean;
  /** Times that cases are started, each for its own rounds. */
  readonly starts: number;
  /** Rounds of slices that others did not disturb. */
  readonly rounds: number;
  /** Seconds of a slice. */
  readonly seconds: number;
  /** Visitors that the load comes from. */
  readonly visitors: number;
  /** Visitors in Redis for what is measured with more and more of them; with the second crowd, what one takes. */
  readonly crowds: readonly number[];
  /** Products of a profile, likewise; as many counts together as the second crowd has. */
  readonly products: readonly number[];
  /** Events for the flusher's ceiling, memory and disk. */
  readonly events: number;
  /** Rows for the analysts' views: few and many. */
  readonly rows: readonly [number, number];
  /** Which sections, groups and cases run: those whose whole name matches. */
  readonly only: RegExp | undefined;
}

/** Rounds that are run at most, where slices are disturbed. */
export function mostRounds({ rounds }: Pick<BenchSettings, 'rounds'>): number {
  return Math.ceil(rounds * 1.5);
}

/** Rounds of what is started once. */
export function roundsOfOne({ starts, rounds }: Pick<BenchSettings, 'starts' | 'rounds'>): number {
  return Math.ceil((starts * rounds) / 2);
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
    starts: number('STARTS', quick ? 2 : 3),
    rounds: number('ROUNDS', quick ? 2 : 3),
    seconds: number('SECONDS', 1),
    visitors: quick ? 20_000 : 100_000,
    crowds: quick ? [10_000, 100_000] : [10_000, 1_000_000, 10_000_000],
    products: quick ? [1, 1_000] : [1, 100, 10_000],
    events: quick ? 100_000 : 1_000_000,
    rows: quick ? [10_000, 1_000_000] : [10_000, 10_000_000],
    only: env.ONLY ? new RegExp(`^(?:${env.ONLY})$`) : undefined,
  };
}
