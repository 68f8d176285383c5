// How much is measured: QUICK=1 takes three minutes, the defaults take fifteen and give figures that may be quoted.

const WHOLE = {
  quick: false,
  /** Seconds of load before the first slice: while V8 still compiles, a visit takes a tenth more. */
  firstLeadS: 1.5,
  /** Visitors that the load comes from. */
  visitors: 50_000,
  /** Guests in Redis. */
  guests: { few: 10_000, many: 10_000_000 },
  /** Guests whose memory is measured: 95 % of a power of two, so that Redis's tables are as full as they get. */
  weighed: 125_000,
  /** Events that are flushed. */
  events: 300_000,
  /** Events that the questions are asked about, next to ten times as many visits. */
  rows: 10_000_000,
  /** Days of these rows: each is totalled by a statement of its own. */
  days: 365,
};

const QUICK: typeof WHOLE = {
  quick: true,
  firstLeadS: 0.5,
  visitors: 20_000,
  guests: { few: 10_000, many: 1_000_000 },
  weighed: 31_000,
  events: 50_000,
  rows: 300_000,
  days: 60,
};

export interface BenchSettings extends Readonly<typeof WHOLE> {
  /** How often each case is started: two processes of one program differ by 5 to 20 % for as long as they live. */
  readonly starts: number;
  /** Undisturbed rounds of slices after each start. */
  readonly rounds: number;
  /** Sections, groups and cases that run: those whose whole name matches. */
  readonly only: RegExp | undefined;
}

/** The most rounds that are run while slices are disturbed. */
export function mostRounds({ rounds }: Pick<BenchSettings, 'rounds'>): number {
  return Math.ceil(rounds * 1.5);
}

/** @throws if STARTS or ROUNDS is not a whole number from 1 up */
export function readSettings(env: NodeJS.ProcessEnv): BenchSettings {
  const quick = (env.QUICK ?? '') !== '' && env.QUICK !== '0';
  const number = (name: string, fallback: number) => {
    const value = Number(env[name] || fallback);
    if (!Number.isInteger(value) || value < 1) throw new Error(`${name} must be a whole number from 1 up`);
    return value;
  };
  return {
    ...(quick ? QUICK : WHOLE),
    starts: number('STARTS', quick ? 1 : 2),
    rounds: number('ROUNDS', quick ? 1 : 3),
    only: env.ONLY ? new RegExp(`^(?:${env.ONLY})$`) : undefined,
  };
}
