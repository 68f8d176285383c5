// Asks the server for the rows of a panel.

import { iso } from './shared.js';

export class LoggedOut extends Error {}
/** The dashboard or ClickHouse does not answer; later it may. */
export class Away extends Error {}

/**
 * @param parameters of the page, beside the days
 * @returns rows by name, with the statement, how long it took, and the address of the same rows as CSV
 */
export async function ask(panel, { from, to }, parameters, signal) {
  const query = new URLSearchParams({ from: iso(from), to: iso(to), ...parameters });
  const answer = await fetch(`panels/${panel}?${query}`, { signal }).catch((error) => {
    if (signal.aborted) throw error;
    throw new Away('The dashboard does not answer.');
  });
  const body = await answer.json();
  if (answer.status === 401) throw new LoggedOut();
  if (!answer.ok) throw new (body.away ? Away : Error)(body.error);
  const rows = body.rows.map((row) => Object.fromEntries(body.names.map((name, i) => [name, row[i]])));
  return { ...body, rows, csv: `panels/${panel}.csv?${query}` };
}
