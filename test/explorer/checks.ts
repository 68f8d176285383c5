// Checks after a schedule, by a server with empty caches: some order of the acts explains all answers and the end, before and after
// what was left half done is completed; links and notes agree then; and nothing is left when everybody is erased.

import { type Act, type Answer, erase, isSame, list, look, open, read, words } from './acts.js';
import type { Model } from './model.js';
import { explains, type Performed } from './orders.js';
import type { People } from './people.js';
import type { Server } from './server.js';

export interface Row {
  readonly event_id: string;
  readonly type: string;
  readonly origin: string;
  readonly profile_id: string;
  readonly payload: string;
}

export interface Played {
  readonly performances: readonly Performed[];
  /** A server has ended. */
  readonly hasEnded: boolean;
  precedes(a: string, b: string): boolean;
}

/** Key -> fields, with letters for people. */
type Dump = ReadonlyMap<string, Readonly<Record<string, string>>>;

/** The data of a merged session are kept for ten minutes. */
const AFTER_MERGE_MS = 11 * 60 * 1_000;

export class Check {
  readonly faults: string[] = [];
  readonly #letters: readonly string[];
  readonly #questions: readonly Act[];

  /** @param start as it was before the schedule @param codes that had been given then */
  constructor(
    private readonly start: Model,
    private readonly played: Played,
    private readonly people: People,
    private readonly fresh: Server,
    private readonly codes: readonly string[],
  ) {
    this.#letters = [...people.profiles().keys()];
    const given = played.performances.flatMap(({ answer }) => answer?.code ?? []);
    this.codes = [...new Set([...codes, ...given])];
    this.#questions = [
      ...this.#letters.flatMap((letter) => [read(letter, 'a'), read(letter, 'b'), list(letter)]),
      ...this.codes.map(open),
      ...this.#letters.map(look),
    ];
  }

  async run(rowsSince: () => Promise<readonly Row[]>): Promise<readonly string[]> {
    const { fresh, played, people } = this;
    const first = await this.#ask();
    if (this.faults.length > 0) return this.faults;
    await fresh.resume(0);
    const rows = await rowsSince();
    this.#explain(first, rows);
    // Until then, an erasure that a server has left half done may have freed no session.
    const end = played.hasEnded ? await this.#ask() : first;
    if (played.hasEnded) this.#explain(end, rows);
    else await this.#compare('once all is completed', first);
    this.#checkEvents(rows);
    const pending = await fresh.resume(AFTER_MERGE_MS);
    await this.#compare('ten minutes later', end);
    this.faults.push(...pending.map((work) => `${people.spell(work)} is pending for ever`));
    this.#checkAgreement(await this.#dump());
    if (this.faults.length === 0) await this.#checkErased();
    return this.faults;
  }

  async #ask(): Promise<Map<string, Answer>> {
    const answers = new Map<string, Answer>();
    const ask = async (act: Act) => {
      try {
        const answer = await this.fresh.perform(this.people.real(act), '');
        answers.set(words(act), this.people.letters(answer));
      } catch (error) {
        this.faults.push(`${words(act)} afterwards fails: ${(error as Error).message}`);
      }
    };
    // A session's use completes its merge.
    const stages = [
      this.#questions.filter((act) => act.who.session !== undefined && act.do !== 'look'),
      this.#questions.filter((act) => act.who.session === undefined && act.do !== 'look'),
      this.#questions.filter((act) => act.do === 'look'),
    ];
    for (const stage of stages) await Promise.all(stage.map(ask));
    return answers;
  }

  async #compare(when: string, first: ReadonlyMap<string, Answer>): Promise<void> {
    for (const [asked, answer] of await this.#ask())
      if (!isSame(answer, first.get(asked)))
        this.faults.push(
          `${asked} = ${JSON.stringify(first.get(asked))}, but ${JSON.stringify(answer)} ${when}`,
        );
  }

  #explain(answers: ReadonlyMap<string, Answer>, rows: readonly Row[]): void {
    const { start, played } = this;
    const fits = (end: Model) => this.#shows(end, answers, rows);
    if (!explains(start, played.performances, (a, b) => played.precedes(a, b), fits))
      this.faults.push(`no order of the acts explains the answers:\n${this.#describe(answers, rows)}`);
  }

  #shows(end: Model, answers: ReadonlyMap<string, Answer>, rows: readonly Row[]): boolean {
    const recorded = mergesIn(rows, this.people);
    return (
      this.#questions.every((act) => isSame(end.act(act), answers.get(words(act)))) &&
      end.merges.every((merge) => this.start.merges.includes(merge) || recorded.has(merge))
    );
  }

  #describe(answers: ReadonlyMap<string, Answer>, rows: readonly Row[]): string {
    const said = (answer?: Answer) => JSON.stringify(answer) ?? 'no answer';
    const lines = [
      ...this.played.performances.map(({ id, act, answer }) => `${id} ${words(act)} = ${said(answer)}`),
      ...[...answers].map(([asked, answer]) => `afterwards ${asked} = ${said(answer)}`),
      ...[...mergesIn(rows, this.people)].map((merge) => `merge on record: ${merge}`),
    ];
    return lines.map((line) => `    ${line}`).join('\n');
  }

  /** Each acknowledged event is in the stream once, under the answered profile; one that was not acknowledged may be. */
  #checkEvents(rows: readonly Row[]): void {
    const events = [...new Map(rows.map((row) => [row.event_id, row])).values()];
    const found = tally(
      events.filter(({ origin }) => origin !== 'merge').map((row) => eventOfRow(row, this.people)),
    );
    const { performances } = this.played;
    const least = tally(performances.filter(({ answer }) => answer !== undefined).map(eventOfAct));
    const open = performances.filter(({ answer }) => answer === undefined).map(({ act }) => act.do as string);
    for (const event of new Set([...found.keys(), ...least.keys()])) {
      const [n = 0, from = 0] = [found.get(event), least.get(event)];
      const may = open.some((kind) => event.startsWith(kind)) ? 1 : 0;
      if (n < from || n > from + may)
        this.faults.push(`${n} rows "${event}", and not ${from} to ${from + may}`);
    }
  }

  /** Links, targets and notes agree, and nothing else is left of a session that belongs to a customer. */
  #checkAgreement(dump: Dump): void {
    const of = (kind: string, letter: string) => dump.get(`{${letter}}:${kind}:P${letter}`);
    const noteOf = (customer: string, session: string) => of('g', customer)?.[`P${session}`];
    const sessions = this.#letters.filter((letter) => letter > 'M');
    for (const letter of this.#letters) {
      const kinds = ['v', 'p', 'i', 'g', 'j', 'x'].filter((kind) => of(kind, letter) !== undefined).join('');
      const [link, target] = [of('v', letter)?.[''], of('p', letter)?.['target']];
      const is = `${letter} has ${kinds || 'no keys'}, link ${link}, target ${target}`;
      const [customer = '', id = '', state] = link?.split(' ') ?? [];
      const note = noteOf(customer.slice(1), letter);
      const expect = (isRight: boolean, what: string) => {
        if (!isRight) this.faults.push(`${what}: ${is}, note ${JSON.stringify(note)}`);
      };
      const isGuest = link === undefined && target === undefined;
      expect(!/[jx]/.test(kinds), 'something is left of a merge or an erasure');
      if (isGuest) expect(!/[ig]/.test(kinds) || /[vp]/.test(kinds), 'data without a visitor');
      else
        expect(
          kinds.replace('v', link ? '' : 'v').replace('p', target ? '' : 'p') === '',
          'data of a linked session',
        );
      if (link !== undefined) {
        const isOwn = target === `${customer} ${id}`;
        expect(state === 'merged' || (state === 'led' && target === undefined), 'state of a link');
        expect(note?.startsWith(`${id} `) === true && note.endsWith('\nmerged') === isOwn, 'note of a link');
      }
      if (target !== undefined) {
        const [into = '', mergeId] = target.split(' ');
        const merged = noteOf(into.slice(1), letter) ?? '';
        const dash = target === `${customer} ${id}` ? '' : '-';
        expect(
          merged.startsWith(`${dash}${mergeId} `) && merged.endsWith('\nmerged'),
          `note "${merged}" of a merge`,
        );
      }
    }
    for (const customer of this.#letters.filter((letter) => letter <= 'M'))
      for (const session of sessions) {
        const note = noteOf(customer, session);
        if (note === undefined) continue;
        const ref = `P${customer} ${note.replace(/^-/, '').split(' ')[0]}`;
        const leads = note.startsWith('-')
          ? of('p', session)?.['target'] === ref
          : of('v', session)?.['']?.startsWith(`${ref} `);
        // A server may have ended between note and link; the note opens nothing.
        if (!leads && !(this.played.hasEnded && note.endsWith('\n')))
          this.faults.push(`${customer}'s note of ${session} ${JSON.stringify(note)} without a link`);
      }
  }

  /** After all people are erased no key of any of them is left, but when a customer was erased, and keys of requests. */
  async #checkErased(): Promise<void> {
    for (const letter of this.#letters) await this.fresh.perform(this.people.real(erase(letter)), '');
    await this.fresh.resume(0);
    for (const key of (await this.#dump()).keys())
      if (!/\}:[ek]:/.test(key)) this.faults.push(`${key} is left when everybody is erased`);
  }

  async #dump(): Promise<Dump> {
    const { people, fresh } = this;
    const spell = (text: string) => people.spell(text);
    const found = await fresh.keysOf(
      this.#letters.map((letter) => people.real(look(letter)).who),
      this.codes,
    );
    const fields = (one: object) => Object.fromEntries(Object.entries(one).map((pair) => pair.map(spell)));
    return new Map([...found].map(([key, value]) => [spell(key), fields(value)]));
  }
}

function mergesIn(rows: readonly Row[], people: People): Set<string> {
  const merges = rows.filter(({ origin }) => origin === 'merge');
  return new Set(
    merges.map(({ profile_id, payload }) => {
      const { into } = JSON.parse(payload) as { into: string };
      return `${people.letterOf(profile_id)}>${people.letterOf(into)}`;
    }),
  );
}

function eventOfRow({ type, origin, profile_id, payload }: Row, people: People): string {
  const { tag, productId } = JSON.parse(payload) as { tag?: string; productId?: string };
  const what = origin === 'item' ? `${type} ${productId}` : origin === 'event' ? `event ${tag}` : type;
  return `${what} of ${people.letterOf(profile_id)}`;
}

function eventOfAct({ id, act, answer }: Performed): string | undefined {
  const of = `of ${answer?.profileId}`;
  if (answer?.profileId === 'retired') return undefined;
  if (act.do === 'event') return `event ${id} ${of}`;
  if (act.do === 'share') return `share ${of}`;
  return act.do === 'add' ? `add ${act.product} ${of}` : undefined;
}

function tally(words: readonly (string | undefined)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) if (word !== undefined) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
