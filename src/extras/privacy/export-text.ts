// The JSON text of an export, put together from the texts of its visitors.

/** JSON text in pieces. Iterating throws where it can't be completed; a part is never a whole JSON value. */
export interface Export extends AsyncIterable<string> {
  /** Ends what it reads from. To be called once it is not read on, also where it was not begun. */
  close(): void;
}

/** One visitor: a JSON object without its last brace. */
export type Visitor = AsyncIterable<string>;

/** What is left of an iteration whose first step was taken. */
export async function* startingWith<T>(first: IteratorResult<T>, rest: AsyncIterator<T>): AsyncGenerator<T> {
  try {
    for (let each = first; !each.done; each = await rest.next()) yield each.value;
  } finally {
    await rest.return?.();
  }
}

/** The first visitor, and those after it as its `others`, if there are any. */
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

/** @param first step of the iteration over all visitors */
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
