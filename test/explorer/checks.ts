// Checks after a schedule, by a server with empty caches: some order of the operations explains all answers and the end.

import { type Act, type Answer, erase, list, read, words } from './acts.js';
import type { Model } from './model.js';
import { explains, type Performed } from './orders.js';
import type { People } from './people.js';
import type { Play } from './play.js';
import type { Server } from './server.js';

export interface Row {
  readonly event_id: string;
  readonly type: string;
  readonly origin: string;
  readonly profile_id: string;
  readonly payload: string;
}

interface Sight {
  /** Act in words -> answer */
  readonly answers: ReadonlyMap<string, Answer>;
  /** `<from>><target>`, as analysts are told. */
  readonly merges: ReadonlySet<string>;
}

function questions(letters: readonly string[]): Act[] {
  return letters.flatMap((letter) => [read(letter, 'a'), read(letter, 'b'), list(letter)]);
}

export async function check(
  model: Model,
  play: Play,
  people: People,
  letters: readonly string[],
  fresh: Server,
  rowsSince: () => Promise<readonly Row[]>,
): Promise<readonly string[]> {
  const faults: string[] = [];
  const answers = new Map<string, Answer>();
  const ask = async (act: Act) => {
    try {
      const answer = await fresh.perform(people.real(act), '');
      answers.set(words(act), { ...answer, profileId: people.ownerOf(answer.profileId) });
    } catch (error) {
      faults.push(`${words(act)} afterwards fails: ${(error as Error).message}`);
    }
  };
  await Promise.all(questions(letters).map(ask));
  const { performed } = play;
  const rows = await rowsSince();
  if (faults.length > 0) return faults;

  const sight: Sight = { answers, merges: mergesIn(rows, people) };
  const fits = (end: Model) => shows(end, letters, sight);
  if (!explains(model, performed, (a, b) => play.precedes(a, b), fits))
    faults.push(`no order of the operations explains the answers:\n${describe(performed, sight)}`);
  faults.push(...checkEvents(performed, rows));
  const hasErasure = performed.some(({ act }) => act.do === 'erase' || act.do === 'eraseMail');
  return hasErasure && faults.length === 0 ? checkErased(people, letters, fresh) : faults;
}

/** After all people are erased no key of any of them is left, such as a profile that no link leads to. */
async function checkErased(people: People, letters: readonly string[], fresh: Server): Promise<string[]> {
  for (const letter of letters) await fresh.perform(people.real(erase(letter)), '');
  await fresh.resume();
  const profiles = letters.map((letter) => people.defaultProfile(letter));
  const whose = letters.map((letter) => people.real(erase(letter)).who);
  const left = await fresh.keysOf(profiles, whose);
  return left.map((key) => `${people.spell(key)} is left when everybody is erased`);
}

function shows(end: Model, letters: readonly string[], sight: Sight): boolean {
  return (
    questions(letters).every((act) => {
      const said = end.act(act);
      const seen = sight.answers.get(words(act));
      return (
        said.profileId === seen?.profileId &&
        said.count === seen.count &&
        said.items?.join() === seen.items?.join()
      );
    }) && end.merges.every(([from, target]) => sight.merges.has(`${from}>${target}`))
  );
}

function mergesIn(rows: readonly Row[], people: People): Set<string> {
  const merges = rows.filter(({ origin }) => origin === 'merge');
  return new Set(
    merges.map(({ profile_id, payload }) => {
      const { into } = JSON.parse(payload) as { into: string };
      return `${people.ownerOf(profile_id)}>${people.ownerOf(into)}`;
    }),
  );
}

function describe(performed: readonly Performed[], { answers, merges }: Sight): string {
  const said = (answer?: Answer) => JSON.stringify(answer) ?? 'no answer';
  const lines = [
    ...performed.map(({ id, act, answer }) => `${id} ${words(act)} = ${said(answer)}`),
    ...[...answers].map(([asked, answer]) => `afterwards ${asked} = ${said(answer)}`),
    ...[...merges].map((merge) => `merge on record: ${merge}`),
  ];
  return lines.map((line) => `    ${line}`).join('\n');
}

/** Each event that was acknowledged is in the stream, once; one that was not acknowledged may be. */
function checkEvents(performed: readonly Performed[], rows: readonly Row[]): string[] {
  const events = new Map(
    rows.filter(({ origin }) => !['merge', 'adoption'].includes(origin)).map((row) => [row.event_id, row]),
  );
  const found = tally([...events.values()].map(eventOfRow));
  const most = tally(performed.map(eventOfAct));
  const least = tally(performed.filter(({ answer }) => answer !== undefined).map(eventOfAct));
  return [...new Set([...most.keys(), ...found.keys()])].flatMap((event) => {
    const [n = 0, from = 0, to = 0] = [found, least, most].map((counts) => counts.get(event));
    return n < from || n > to ? [`${n} events "${event}" in the stream, and not ${from} to ${to}`] : [];
  });
}

function eventOfRow({ type, payload }: Row): string {
  const { tag, productId } = JSON.parse(payload) as { tag?: string; productId?: string };
  return tag === undefined ? `${type} ${productId ?? ''}`.trim() : `event ${tag}`;
}

function eventOfAct({ id, act }: Performed): string | undefined {
  if (act.do === 'event') return `event ${id}`;
  return act.do === 'add' ? `add ${act.product}` : undefined;
}

function tally(words: readonly (string | undefined)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) if (word !== undefined) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
