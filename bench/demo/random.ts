// Random numbers from a fixed seed, so that a failure of the demo can be repeated.

export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** Whether something of this probability happens. */
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
}

/** mulberry32: 32 bits of state, good enough for a crowd of shoppers. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 15), z | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    chance: (probability) => next() < probability,
    pick: (from) => {
      const one = from[Math.floor(next() * from.length)];
      if (one === undefined) throw new Error('nothing to pick from');
      return one;
    },
  };
}
