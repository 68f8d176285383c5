// Whether Redis may be used at this moment: connected, and still the one that this process was started with.
//
//   up ──close──▶ down ──ready──▶ asked for its clock and its salt ──the same──▶ up
//                                        └──another salt, or none──▶ lost, until a later look finds the right one
//
// A Redis that comes back empty (its volume gone, a fail-over to a replica that never synced) takes writes
// happily. Profile ids made under a salt that is nowhere any more would be another visitor's by tomorrow,
// so nothing is written until the right data is back. Another server also has another clock, and deadlines
// are in its time: nothing is sent before that is known either.

import { StartupError } from '../errors.js';
import type { RedisClient } from './client.js';
import type { RedisClock } from './clock.js';

/** The data that this process was started with is not in Redis any more. */
export class DeploymentLostError extends StartupError {
  constructor() {
    super(
      'Redis no longer holds the deployment that this process was started with: its data are gone or were replaced. ' +
        'Nothing is written to it. Bring the data back; or, if they are lost for good, start again',
    );
    this.name = 'DeploymentLostError';
  }
}

/** How often the clock is asked for: it may be set while the connection stays. */
const MEASURE_MS = 10_000;

export interface PresenceSpec {
  readonly client: RedisClient;
  readonly clock: RedisClock;
  /** Key of the hash that holds the salt. */
  readonly metaKey: string;
  readonly salt: string;
  /** Milliseconds after which it is not worth waiting for a lost connection. */
  readonly patienceMs: number;
  /** Told of failed looks, and once of a loss, as DeploymentLostError. */
  readonly onError: (error: Error) => void;
}

export class Presence {
  readonly #spec: PresenceSpec;
  readonly #measuring: NodeJS.Timeout;
  #isConnected = true;
  #isLost = false;
  #downSince = 0;

  /** @param spec with a client that is connected and a clock that was measured */
  constructor(spec: PresenceSpec) {
    this.#spec = spec;
    const { client, clock, onError } = spec;
    client.on('close', () => {
      if (this.#isConnected) this.#downSince = performance.now();
      this.#isConnected = false;
    });
    client.on('ready', () => void this.#lookAgain());
    // A cluster is ready once; its nodes come and go, and any of them may have the salt.
    client.on('+node', () => void this.look().catch(() => {}));
    this.#measuring = setInterval(() => {
      if (this.isUp) clock.measure(client).catch(onError);
    }, MEASURE_MS).unref();
  }

  get isUp(): boolean {
    return this.#isConnected && !this.#isLost;
  }

  /** It is away for so long that whoever waits would wait in vain. */
  get isHopeless(): boolean {
    return (
      this.#isLost || (!this.#isConnected && performance.now() - this.#downSince > this.#spec.patienceMs)
    );
  }

  /** Looks whether the right Redis answers. @throws DeploymentLostError where it is another, Redis's errors */
  async look(): Promise<void> {
    const { client, metaKey, salt, onError } = this.#spec;
    const found = await client.hget(metaKey, 'salt');
    const wasLost = this.#isLost;
    this.#isLost = found !== salt;
    if (!this.#isLost) return;
    const error = new DeploymentLostError();
    if (!wasLost) onError(error);
    throw error;
  }

  close(): void {
    clearInterval(this.#measuring);
  }

  async #lookAgain(): Promise<void> {
    const { client, clock, onError } = this.#spec;
    try {
      await clock.measure(client);
      await this.look();
    } catch (error) {
      // It was told, or the connection is gone again and its next `ready` looks again.
      if (!(error instanceof DeploymentLostError)) {
        onError(error as Error);
        if (client.status === 'ready') client.disconnect(true);
        return;
      }
    }
    this.#isConnected = true;
  }
}
