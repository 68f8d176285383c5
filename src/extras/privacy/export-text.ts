// Joins visitors' JSON into the text of an export.

/** The pieces of an export's JSON. If iterating throws, the text so far isn't valid JSON. */
export interface Export extends AsyncIterable<string> {
  /** Ends the queries. Call it even if nothing was read. */
  close(): void;
}

/** The pieces of a JSON object without its last brace. */
export type Visitor = AsyncIterable<string>;

export async function* startingWith<T>(first: IteratorResult<T>, rest: AsyncIterator<T>): AsyncGenerator<T> {
  try {
    for (let each = first; !each.done; each = await rest.next()) yield each.value;
  } finally {
    await rest.return?.();
  }
}

export async function* withOthers(first: Visitor, others: AsyncIterable<Visitor>): AsyncGenerator<string> {
  yield* first;
  let between = ',"others":[';
  for await (const other of others) {
    yield between;
    yield* other;
    yield '}';
    between = ',';
  }
  yield between === ',' ? ']}' : '}';
}

export async function* inArray(
  first: IteratorResult<Visitor, unknown>,
  rest: AsyncGenerator<Visitor>,
): AsyncGenerator<string> {
  yield '[';
  let between = '';
  for (let each = first; !each.done; each = await rest.next()) {
    yield between;
    yield* each.value;
    yield '}';
    between = ',\n';
  }
  yield ']';
}
