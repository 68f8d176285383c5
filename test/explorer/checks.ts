// Checks after a schedule, by a server with empty caches. Some order of the acts explains all answers and the
// end, before and after unfinished work is completed. After that, links and notes agree, and nothing is left
// when everybody is erased.

import { type Act, type Answer, actOf, isSame, RETIRED } from './acts.js';
import type { Model } from './model.js';
import { explains } from './orders.js';
import type { People } from './people.js';
import type { Play } from './play.js';
import type { Hashes, Row, Server } from './server.js';

interface Checked {
  /** The state before the schedule. */
  readonly start: Model;
  readonly play: Play;
  readonly people: People;
  readonly fresh: Server;
  readonly codes: readonly string[];
}

/** Question -> answer */
type Sight = ReadonlyMap<string, Answer>;

/** Later than ten minutes after a merge, when the data of the session may be deleted. */
const AFTER_MERGE_MS = 11 * 60 * 1_000;

/** @returns faults */
export async function check(checked: Checked): Promise<string[]> {
  const { play, people, fresh, codes } = checked;
  const { letters } = people;
  const faults: string[] = [];
  const perform = async (act: Act) =>
    [act.words, people.spellAnswer(await fresh.perform(people.real(act), ''))] as const;
  const ask = (questions: readonly string[]) => Promise.all(questions.map(actOf).map(perform));
  const read = (of: readonly string[]) =>
    of.flatMap((letter) => [`read ${letter} a`, `read ${letter} b`, `list ${letter}`]);
  // Reading a session completes its merge, and may change what the session is.
  const see = async (): Promise<Sight> =>
    new Map([
      ...(await ask(read(letters.filter((letter) => letter > 'M')))),
      ...(await ask([
        ...read(letters.filter((one) => one <= 'M')),
        ...codes.map((code) => `open - ${code}`),
      ])),
      ...(await ask(letters.map((letter) => `look ${letter}`))),
    ]);
  const compare = (when: string, first: Sight, then: Sight) => {
    for (const [asked, answer] of then)
      if (!isSame(answer, first.get(asked)))
        faults.push(`${asked} = ${textOf(first.get(asked))}, but ${textOf(answer)} ${when}`);
  };

  const first = await see();
  await fresh.resume(0);
  const rows = await fresh.rowsSince();
  faults.push(...explain(checked, first, rows));
  // Before that, an erasure that a server has left unfinished may not have freed every session.
  const end = play.hasEnded ? await see() : first;
  if (play.hasEnded) faults.push(...explain(checked, end, rows));
  else compare('once all is completed', first, await see());
  faults.push(...checkEvents(checked, rows));
  const pending = await fresh.resume(AFTER_MERGE_MS);
  compare('ten minutes later', end, await see());
  faults.push(...pending.map((work) => `${people.spell(work)} is pending for ever`));
  faults.push(...checkAgreement(checked, await fresh.keysOf(people, codes)));
  if (faults.length > 0) return faults;

  // No key of a person may be left, except the marks of erasures and the keys of requests.
  for (const letter of letters) await ask([`erase ${letter}`]);
  await fresh.resume(0);
  const left = [...(await fresh.keysOf(people, codes)).keys()].filter((key) => !/\}:[ek]:/.test(key));
  return left.map((key) => `${key} is left when everybody is erased`);
}

function explain({ start, play, people }: Checked, sight: Sight, rows: readonly Row[]): string[] {
  const merges = rows
    .filter(({ origin }) => origin === 'merge')
    .map(({ profile_id, payload }) => {
      const { into } = JSON.parse(payload) as { into: string };
      return `${people.letterOf(profile_id)}>${people.letterOf(into)}`;
    });
  const recorded = [...start.merges, ...merges];
  const fits = (end: Model) =>
    [...sight].every(([asked, answer]) => isSame(end.act(actOf(asked)), answer)) &&
    end.merges.every((merge) => recorded.includes(merge));
  if (explains(start, play.performances, (a, b) => play.precedes(a, b), fits)) return [];
  const lines = [
    ...play.performances.map(({ id, act, answer }) => `${id} ${act.words} = ${textOf(answer)}`),
    ...[...sight].map(([asked, answer]) => `afterwards ${asked} = ${textOf(answer)}`),
    ...merges.map((merge) => `merge on record: ${merge}`),
  ];
  return [['no order of the acts explains the answers:', ...lines].join('\n    ')];
}

/** Each acknowledged event is in the stream once, under the answered profile; an unacknowledged one may be. */
function checkEvents({ play, people }: Checked, rows: readonly Row[]): string[] {
  const events = new Map(rows.map((row) => [row.event_id, row]));
  const acts = [...events.values()].filter(({ origin }) => origin !== 'merge');
  const found = acts.map(({ type, profile_id, payload }) => {
    const { tag, productId = '' } = JSON.parse(payload) as { tag?: string; productId?: string };
    return `${type} ${tag ?? productId} of ${people.letterOf(profile_id)}`;
  });
  const made = play.performances.flatMap(({ id, act, answer }) => {
    const event = { event: `add ${id}`, share: 'share ', add: `add ${act.what}` }[act.do as string];
    if (event === undefined || answer?.profileId === RETIRED) return [];
    return [{ row: `${event} of ${answer?.profileId ?? ''}`, answer }];
  });
  const answered = made.flatMap(({ row, answer }) => (answer === undefined ? [] : row));
  return [...new Set([...found, ...answered])].flatMap((row) => {
    const n = found.filter((one) => one === row).length;
    const least = answered.filter((one) => one === row).length;
    const most = least + made.filter((one) => one.answer === undefined && row.startsWith(one.row)).length;
    return n < least || n > most ? `${n} rows "${row}", and not ${least} to ${most}` : [];
  });
}

/** Links, targets and notes agree, and nothing else is left of a session that belongs to a customer. */
function checkAgreement({ people, play }: Checked, dump: Hashes): string[] {
  const faults: string[] = [];
  const of = (kind: string, letter: string) => dump.get(`{${letter}}:${kind}:P${letter}`);
  for (const letter of people.letters) {
    const kinds = ['v', 'p', 'i', 'g', 'j', 'x'].filter((kind) => of(kind, letter) !== undefined).join('');
    const [link = '', target = ''] = [of('v', letter)?.[''], of('p', letter)?.['target']];
    const noteOf = (text: string) => of('g', text.charAt(1))?.[`P${letter}`] ?? '';
    const notes = textOf([noteOf(link), noteOf(target)]);
    const expect = (isRight: boolean, what: string) => {
      if (!isRight)
        faults.push(`${letter}: ${what}: keys ${kinds}, link ${link}, target ${target}, notes ${notes}`);
    };
    expect(!/[jx]/.test(kinds), 'something is left of a merge or an erasure');
    if (link + target === '') expect(!/[ig]/.test(kinds) || /[vp]/.test(kinds), 'data without a visitor');
    else expect(kinds === (link && 'v') + (target && 'p'), 'data of its own beside a link');
    const [customer, id, state] = link.split(' ');
    const isOwn = target === `${customer} ${id}`;
    if (link !== '') {
      expect(state === 'merged' || (state === 'led' && target === ''), 'state of the link');
      const isMerged = noteOf(link).endsWith('\nmerged');
      expect(noteOf(link).startsWith(`${id} `) && isMerged === isOwn, 'note of the link');
    }
    const start = `${isOwn ? '' : 'moved:'}${target.split(' ')[1]} `;
    if (target !== '')
      expect(noteOf(target).startsWith(start) && noteOf(target).endsWith('\nmerged'), 'note of the merge');
    for (const [member, note] of Object.entries(of('g', letter) ?? {})) {
      const session = /^P([N-Z])$/.exec(member)?.[1];
      if (session === undefined) continue;
      const ref = `P${letter} ${note.replace(/^moved:/, '').split(' ')[0]}`;
      const leads = note.startsWith('moved:') ? of('p', session)?.['target'] : of('v', session)?.[''];
      // A server may have ended between the note and the link; such a note has no effect.
      const isLeft = play.hasEnded && note.endsWith('\n');
      expect(
        `${leads} `.startsWith(`${ref} `) || isLeft,
        `note ${textOf(note)} of ${session} without a link`,
      );
    }
  }
  return faults;
}

function textOf(value: unknown): string {
  return JSON.stringify(value) ?? 'no answer';
}
