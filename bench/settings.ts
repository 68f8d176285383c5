// How much is measured: QUICK=1 takes three minutes, the defaults take fifteen and give figures that may be quoted.

export interface BenchSettings {
  readonly quick: boolean;
  /** How often each case is started: two processes of one program differ by 5 to 20 % for as long as they live. */
  readonly starts: number;
  /** Undisturbed rounds of slices after each start. */
  readonly rounds: number;
  /** Seconds of load before the first slice: while V8 still compiles, a visit takes a tenth more. */
  readonly firstLeadS: number;
  /** Visitors that the load comes from. */
  readonly visitors: number;
  /** Guests in Redis. */
  readonly guests: { readonly few: number; readonly many: number };
  /** Guests whose memory is measured: 95 % of a power of two, so that Redis's tables are as full as they get. */
  readonly weighed: number;
  /** Events that are flushed. */
  readonly events: number;
  /** Events that the questions are asked about, next to ten times as many visits. */
  readonly rows: number;
  /** Days of these rows: each is totalled by a statement of its own. */
  readonly days: number;
  /** Sections, groups and cases that run: those whose whole name matches. */
  readonly only: RegExp | undefined;
}

const QUICK = {
  quick: true,
  firstLeadS: 0.5,
  visitors: 20_000,
  guests: { few: 10_000, many: 1_000_000 },
  weighed: 31_000,
  events: 50_000,
  rows: 300_000,
  days: 60,
} as const;

const WHOLE = {
  quick: false,
  firstLeadS: 1.5,
  visitors: 50_000,
  guests: { few: 10_000, many: 10_000_000 },
  weighed: 125_000,
  events: 300_000,
  rows: 10_000_000,
  days: 365,
} as const;

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
