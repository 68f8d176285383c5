// Asks the server: for the rows of a panel, or for anything as JSON.

import { iso } from './shared.js';

export class LoggedOut extends Error {}
/** The days can't be shown, whatever the panel. */
export class BadRange extends Error {}
/** `name` does not answer; later it may. */
export class Away extends Error {
  constructor(name) {
    super(`${name} does not answer.`);
    this.name = name;
  }
}

/**
 * Requests under way. A browser opens six connections to a server; two are left for what is clicked next, since a page that
 * is left keeps its own until the next one comes.
 */
const AT_ONCE = 4;
let underWay = 0;
const waiting = [];

async function inTurn(act) {
  if (underWay === AT_ONCE) await new Promise((resolve) => waiting.push(resolve));
  else underWay++;
  try {
    return await act();
  } finally {
    const next = waiting.shift();
    if (next === undefined) underWay--;
    else next();
  }
}

/** @param who is away where the answer says so @returns the answer's body */
export async function askFor(path, who, signal) {
  const away = (error) => {
    if (signal.aborted) throw error;
    throw new Away('The dashboard');
  };
  const [answer, body] = await inTurn(async () => {
    const answer = await fetch(path, { signal }).catch(away);
    return [answer, await answer.json().catch(away)]; // a proxy in between has no JSON
  });
  if (answer.status === 401) throw new LoggedOut();
  if (answer.status === 400) throw new BadRange(body.error);
  if (body.away) throw new Away(who);
  if (!answer.ok) throw new Error(body.error);
  return body;
}

/**
 * @param parameters of the page, beside the days
 * @returns rows by name, with the statement, how long it took, and the address of the same rows as CSV
 */
export async function ask(panel, { from, to }, parameters, signal) {
  const query = new URLSearchParams({ from: iso(from), to: iso(to), ...parameters });
  const body = await askFor(`panels/${panel}?${query}`, 'ClickHouse', signal);
  const rows = body.rows.map((row) => Object.fromEntries(body.names.map((name, i) => [name, row[i]])));
  return { ...body, rows, csv: `panels/${panel}.csv?${query}` };
}
