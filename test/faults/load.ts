// The traffic of a shop, and a book of its sent and acknowledged requests, which reconcile.ts compares in the
// end. Calls with an Idempotency-Key are repeated until they are acknowledged: the book has exactly one.

import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom, type Random } from '../../bench/demo/random.js';
import { ITEM } from '../harness/shop.js';
import { until } from '../harness/until.js';
import { Caller, type CallerSpec } from './caller.js';

export interface LoadSpec extends CallerSpec {
  readonly seed: number;
  readonly restMs?: number;
  /** The beginning of every id if several loads share a service. */
  readonly name?: string;
}

export interface Entry {
  sent: number;
  acknowledged: number;
}

const SESSIONS = Array.from({ length: 20 }, (_, i) => `s${i}`);
const HANDLES = Array.from({ length: 8 }, (_, i) => `h${i}`);

export class Load {
  /** By id: the product's id in the event, with an r before it if the event is its removal. */
  readonly events = new Map<string, Entry>();
  /** By session and handle, separated by a space. */
  readonly visits = new Map<string, Entry>();
  readonly caller: Caller;

  readonly #spec: LoadSpec;
  readonly #random: Random;
  readonly #name: string;
  #ids = 0;
  #running = true;
  #done: Promise<unknown>;

  constructor(spec: LoadSpec) {
    this.#spec = spec;
    this.#name = spec.name ?? '';
    this.#random = createRandom(spec.seed);
    this.caller = new Caller(spec);
    this.#done = Promise.all(Array.from({ length: spec.connections }, () => this.#connection()));
  }

  get answers(): Readonly<Record<string, number>> {
    return this.caller.answers;
  }

  get faults(): readonly string[] {
    return this.caller.faults;
  }

  get acknowledged(): number {
    return this.answers['200'] ?? 0;
  }

  async stop(): Promise<void> {
    this.#running = false;
    await this.#done;
    this.caller.close();
  }

  async untilServed(requests = 1): Promise<void> {
    const wanted = this.acknowledged + requests;
    await until(`${requests} more requests are acknowledged`, () => this.acknowledged >= wanted);
  }

  async untilRefused(requests: number): Promise<void> {
    const refused = () => this.answers['503'] ?? 0;
    const wanted = refused() + requests;
    await until(`${requests} more requests get 503`, () => refused() >= wanted);
  }

  toString(): string {
    const answers = Object.entries(this.answers).map(([status, n]) => `${n} × ${status}`);
    return `${answers.join(', ')}; longest ${Math.round(this.caller.longestMs)} ms`;
  }

  async #connection(): Promise<void> {
    while (this.#running) {
      await this.#operation();
      if (this.#spec.restMs) await sleep(this.#spec.restMs);
    }
  }

  #operation(): Promise<void> {
    const dice = this.#random.next();
    if (dice < 0.4) return this.#visit(false);
    if (dice < 0.55) return this.#visit(true);
    if (dice < 0.7) return this.#read();
    if (dice < 0.74) return this.#visitUntilAcknowledged();
    if (dice < 0.8) return this.#eventUntilAcknowledged();
    if (dice < 0.95) return this.#event();
    return this.#item();
  }

  async #visit(wantsCount: boolean): Promise<void> {
    const { entry, key, body } = this.#pick();
    const before = entry.acknowledged;
    entry.sent++;
    const answer = await this.caller.call('POST', `/product/visit${wantsCount ? '?count=true' : ''}`, body);
    if (answer?.status !== 200) return;
    entry.acknowledged++;
    if (wantsCount) this.#judgeCount(key, answer.text, before + 1, entry.sent);
  }

  async #read(): Promise<void> {
    const { entry, key, body } = this.#pick();
    const least = entry.acknowledged;
    const query = new URLSearchParams({
      sessionId: body.identity.sessionId,
      productHandle: body.productHandle,
    });
    const answer = await this.caller.call('GET', `/product/visit?${query}`);
    if (answer?.status === 200) this.#judgeCount(key, answer.text, least, entry.sent);
  }

  async #event(): Promise<void> {
    const { entry, body } = this.#newEvent();
    const answer = await this.caller.call('POST', '/event', body);
    if (answer?.status === 200) entry.acknowledged++;
  }

  async #item(): Promise<void> {
    const { entry, body } = this.#newEvent();
    const { identity, payload } = body;
    const answer = await this.caller.call('POST', '/item/add', { ...ITEM, identity, ...payload });
    if (answer?.status === 200) entry.acknowledged++;
    const removal: Entry = { sent: 1, acknowledged: 0 };
    this.events.set(`r${payload.productId}`, removal);
    const removed = await this.caller.call('POST', '/item/remove', { identity, ...payload });
    if (removed?.status === 200 && removed.text.includes('"removed":true')) removal.acknowledged++;
  }

  async #visitUntilAcknowledged(): Promise<void> {
    const { entry, body } = this.#pick();
    entry.sent++;
    if (await this.#untilAcknowledged('/product/visit', body)) entry.acknowledged++;
  }

  async #eventUntilAcknowledged(): Promise<void> {
    const { entry, body } = this.#newEvent();
    if (await this.#untilAcknowledged('/event', body)) entry.acknowledged++;
  }

  async #untilAcknowledged(path: string, body: object): Promise<boolean> {
    const headers = { 'idempotency-key': `${this.#name}${this.#spec.seed}-${this.#ids++}` };
    while (this.#running) {
      const answer = await this.caller.call('POST', path, body, headers);
      if (answer?.status === 200) return true;
      await sleep(50);
    }
    return false;
  }

  #pick() {
    const sessionId = `${this.#name}${this.#random.pick(SESSIONS)}`;
    const productHandle = this.#random.pick(HANDLES);
    const key = `${sessionId} ${productHandle}`;
    let entry = this.visits.get(key);
    if (entry === undefined) {
      entry = { sent: 0, acknowledged: 0 };
      this.visits.set(key, entry);
    }
    return { key, entry, body: { identity: { sessionId }, productHandle } };
  }

  #newEvent() {
    const id = `${this.#name}e${this.#ids++}`;
    const entry: Entry = { sent: 1, acknowledged: 0 };
    this.events.set(id, entry);
    const sessionId = `${this.#name}${this.#random.pick(SESSIONS)}`;
    return { entry, body: { identity: { sessionId }, type: 'add', payload: { productId: id } } };
  }

  #judgeCount(key: string, body: string, least: number, most: number): void {
    const { count } = JSON.parse(body) as { count: number };
    if (!(count >= least && count <= most))
      this.caller.fault(`${key}: counted ${count}, not ${least} to ${most}`);
  }
}
