// Counts, reads and resets visits.

import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import { type Ask, type Located, LocatedRequest } from '../profiles/locator.js';
import type { Check } from '../profiles/login.js';
import type { Visitors } from '../profiles/visitors.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import { fitsProduct } from './product-limit.js';
import type { VisitBatch, VisitEntry, VisitKind } from './visit-batch.js';

/** `count`: 0 unless asked for. */
export interface Counted {
  readonly profileId: string;
  readonly count: number;
}

type Asked = Pick<VisitEntry, 'kind' | 'handle' | 'device' | 'recordId'>;

/** Rounds until a request fails. Each failed round means that another request has changed the session's link. */
const ROUNDS = 8;

/** `succeeded` gets the count, if asked for. */
export abstract class CountRequest extends LocatedRequest<number | undefined> implements VisitEntry {
  batch: VisitBatch | undefined;
  isKept = false;

  constructor(
    readonly kind: VisitKind,
    readonly handle: string,
    readonly device: string | null,
  ) {
    super();
  }

  get writes(): boolean {
    return this.kind !== 'read';
  }

  add(): void {
    this.batch?.add(this);
  }
}

export class VisitCounter {
  constructor(
    private readonly store: Store,
    private readonly visitors: Visitors,
    private readonly batch: VisitBatch,
    private readonly maxProducts: number,
  ) {}

  /** `enter` without promises, unless ids are linked. */
  count(request: CountRequest, who: Identity, mayLink: boolean): void {
    const { kind, handle } = request;
    request.batch = this.batch;
    this.visitors.send(request, who, mayLink && kind !== 'read', this.#checkOf(kind, handle));
  }

  async enter(
    kind: Exclude<VisitKind, 'read'>,
    who: Identity,
    mayLink: boolean,
    handle: string,
  ): Promise<Counted> {
    const ask = this.#countAt({ kind, handle, device: who.device });
    const { profileId, answer } = await this.visitors.change(who, mayLink, ask, this.#checkOf(kind, handle));
    return { profileId, count: answer };
  }

  /** Counts once per operation, even if the counts move. */
  async enterOnce(
    who: Identity,
    mayLink: boolean,
    { kind, handle }: { readonly kind: 'visit' | 'reset'; readonly handle: string },
    operation: KeyedOperation,
  ): Promise<Counted> {
    const asked = { kind: kind === 'visit' ? 'count' : kind, handle, device: who.device } as const;
    const ask: Ask<Counted> = (location) =>
      operation.doAt<Counted | string>(location.profileId, async (recordId, done) => {
        if (done !== undefined) return { profileId: done.location, count: Number(done.record) };
        const count = await this.#countAt({ ...asked, recordId })(location);
        return typeof count === 'string' ? count : { profileId: location.profileId, count };
      });
    return (await this.visitors.change(who, mayLink, ask, this.#checkOf(kind, handle))).answer;
  }

  /** Reads counts, and the profile id that the visitor has or would get. */
  async readAll(
    who: Identity,
    handles: readonly string[],
  ): Promise<{ readonly profileId: string; readonly counts: readonly number[] }> {
    for (let round = 0; round < ROUNDS; round++) {
      const read = await Promise.all(
        handles.map((handle) =>
          this.visitors.peek(who, this.#countAt({ kind: 'read', handle, device: null })),
        ),
      );
      const { profileId } = read[0] as Located<number>;
      if (read.every((one) => one.profileId === profileId))
        return { profileId, counts: read.map(({ answer }) => answer) };
    }
    throw new ServiceError('unavailable');
  }

  #countAt(asked: Asked): Ask<number> {
    return async ({ profileId, session, linkId }) =>
      ((await this.batch.run({ ...asked, profileId, session, linkId })) as number | string | undefined) ?? 0;
  }

  /** A visit that doesn't fit must not link ids. */
  #checkOf(kind: VisitKind, handle: string): Check | undefined {
    if (kind === 'reset') return undefined;
    return (customer) => fitsProduct(this.store, this.maxProducts, customer, handle);
  }
}
