// Requests to the server.

import { parameter } from './address.js';
import { iso } from './shared.js';

export class LoggedOut extends Error {}
export class BadRange extends Error {}
/** `name` doesn't answer; the page asks again later. */
export class Away extends Error {
  constructor(name) {
    super(`${name} does not answer.`);
    this.name = name;
  }
}

/** Maximum of concurrent requests. A browser opens six connections to a server; two stay free for the next page. */
const MAX_CONCURRENT = 4;
let underWay = 0;
const waiting = [];

async function inTurn(act) {
  if (underWay === MAX_CONCURRENT) await new Promise((resolve) => waiting.push(resolve));
  else underWay++;
  try {
    return await act();
  } finally {
    const next = waiting.shift();
    if (next === undefined) underWay--;
    else next();
  }
}

/** @param who name of the database that doesn't answer if the response has `away` */
export async function askFor(path, who, signal) {
  const away = (error) => {
    if (signal.aborted) throw error;
    throw new Away('The dashboard');
  };
  const [answer, body] = await inTurn(async () => {
    const answer = await fetch(path, { signal }).catch(away);
    return [answer, await answer.json().catch(away)]; // a proxy may answer without JSON
  });
  if (answer.status === 401) throw new LoggedOut();
  if (answer.status === 400) throw new BadRange(body.error);
  if (body.away) throw new Away(who);
  if (!answer.ok) throw new Error(body.error);
  return body;
}

export async function ask(panel, { from, to }, parameters, signal) {
  const query = new URLSearchParams({ from: iso(from), to: iso(to), ...parameters });
  const compare = parameter('compare') === 'year' ? '&compare=year' : '';
  const body = await askFor(`panels/${panel}?${query}${compare}`, 'ClickHouse', signal);
  const rows = body.rows.map((row) => Object.fromEntries(body.names.map((name, i) => [name, row[i]])));
  return { ...body, rows, csv: `panels/${panel}.csv?${query}` };
}
