// ClickHouse as an analyst has it: a URL that answers SQL.

export interface Analyst {
  /** The answer as a table for people. */
  table(query: string): Promise<string>;
  /** The answer as rows. */
  rows<Row>(query: string): Promise<Row[]>;
}

export function createAnalyst(clickhouseUrl: string, database: string): Analyst {
  const { origin, username, password } = new URL(clickhouseUrl);
  const ask = async (query: string, format: string): Promise<string> => {
    const response = await fetch(`${origin}/?${new URLSearchParams({ database, default_format: format })}`, {
      method: 'POST',
      body: query,
      headers: {
        ...(username ? { 'x-clickhouse-user': decodeURIComponent(username) } : {}),
        ...(password ? { 'x-clickhouse-key': decodeURIComponent(password) } : {}),
      },
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(text);
    return text;
  };
  return {
    table: (query) => ask(query, 'PrettyCompactMonoBlock'),
    rows: async <Row>(query: string) => {
      const lines = (await ask(query, 'JSONEachRow')).split('\n').filter((line) => line !== '');
      return lines.map((line) => JSON.parse(line) as Row);
    },
  };
}
