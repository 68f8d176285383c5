// Counts, reads and resets visits.

import { type Ask, LocatedRequest } from '../profiles/locator.js';
import type { Location } from '../redis/location.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { VisitBatch, VisitEntry, VisitKind } from './visit-batch.js';

/** `count`: 0 unless asked for. */
export interface Counted {
  readonly profileId: string;
  readonly count: number;
}

type Asked = Pick<VisitEntry, 'kind' | 'handle' | 'device' | 'recordId'>;

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

export function countAt(
  batch: VisitBatch,
  kind: VisitKind,
  handle: string,
  device: string | null,
): Ask<number> {
  return (location) => ask(batch, location, { kind, handle, device });
}

/** Counts once per operation, even if the counts move. */
export function countOnce(
  batch: VisitBatch,
  { kind, handle, device }: Asked,
  operation: KeyedOperation,
): Ask<Counted> {
  return (location) =>
    operation.doAt<Counted | string>(location.profileId, async (recordId, done) => {
      if (done !== undefined) return { profileId: done.location, count: Number(done.record) };
      const count = await ask(batch, location, { kind, handle, device, recordId });
      return typeof count === 'string' ? count : { profileId: location.profileId, count };
    });
}

async function ask(batch: VisitBatch, location: Location, asked: Asked): Promise<number | string> {
  const { profileId, session, linkId } = location;
  return (await batch.run({ ...asked, profileId, session, linkId })) ?? 0;
}
