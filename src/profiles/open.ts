// Composes the parts of profiles.

import type { Issue } from '../errors.js';
import type { Append } from '../events/appender.js';
import type { Identity } from '../identity-rules.js';
import type { Batcher } from '../redis/batcher.js';
import type { Store } from '../redis/store.js';
import { ProductLimit } from '../visits/product-limit.js';
import type { VisitBatch } from '../visits/visit-batch.js';
import { belongingsOf, type FieldIndex } from './belongings.js';
import { Emails } from './emails.js';
import { Eraser } from './eraser.js';
import type { RecordingBatch } from './event-requests.js';
import { Linker } from './link.js';
import { LinkedEraser } from './linked-eraser.js';
import { Links } from './links.js';
import { Locations } from './locations.js';
import { Merger } from './merge.js';
import { findNamed } from './named-visitor.js';
import { Pending } from './pending.js';
import { createProfileIds } from './profile-id.js';
import { Profiles } from './profiles.js';
import { Redirects } from './redirects.js';
import { type OnFailed, Resume } from './resume.js';
import { Visitors } from './visitors.js';

export type IdentityParts = ReturnType<typeof openIdentity>;

export interface IdentityStats {
  readonly erased?: () => void;
  readonly addressesDropped?: (profiles: number) => void;
  readonly failed?: OnFailed;
}

export interface IdentitySpec {
  readonly store: Store;
  readonly visits: VisitBatch;
  readonly recordings: RecordingBatch;
  readonly appends: Batcher<Append, unknown>;
  readonly maxProducts: number;
  readonly stats?: IdentityStats;
  readonly itemIndex?: FieldIndex | undefined;
}

export function openIdentity(spec: IdentitySpec) {
  const { store, visits, recordings, appends, maxProducts, stats = {}, itemIndex } = spec;
  const { salt, buckets } = store.deployment;
  const profileIds = createProfileIds(salt, buckets);
  const links = new Links(store, visits, profileIds);
  const pending = new Pending(store);
  const append = (profileId: string, line: string) => appends.run({ line, profileId });
  const belongings = belongingsOf(itemIndex);
  const merger = new Merger({ store, links, pending, append, belongings });
  const redirects = new Redirects({
    ...{ store, links, merger, append },
    finishErasure: (profileId, generation) => linkedEraser.removeLeftovers(profileId, generation),
  });
  const emails = new Emails(store, redirects, stats.addressesDropped);
  const linkedEraser: LinkedEraser = new LinkedEraser({ store, links, merger, emails, pending, belongings });
  const locations = new Locations(links, redirects);
  const linker = new Linker(links, merger, redirects);
  const visitors = new Visitors({
    links,
    redirects,
    locations,
    visits,
    recordings,
    linker,
    products: new ProductLimit(store, maxProducts),
  });
  return {
    linker,
    links,
    redirects,
    emails,
    findNamed: (identity: Identity, where?: Issue['in']) => findNamed(redirects, emails, identity, where),
    eraser: new Eraser({
      ...{ store, links, redirects, emails, belongings },
      linked: linkedEraser,
      onErased: stats.erased,
    }),
    pending,
    resume: new Resume({ pending, merger, redirects, linkedEraser, onFailed: stats.failed ?? (() => {}) }),
    profiles: new Profiles(store, visitors, emails, profileIds),
    visitors,
    profileIds,
    belongings,
  };
}
