// Puts the parts of identities together: they are made of each other and of nothing else.

import type { Append } from '../events/appender.js';
import type { Recording } from '../events/recording.js';
import { AtProfile } from '../redis/at-profile.js';
import type { Batcher } from '../redis/batcher.js';
import type { Store } from '../redis/store.js';
import { ProductLimit } from '../visits/product-limit.js';
import type { VisitBatch } from '../visits/visit-batch.js';
import type { VisitLog } from '../visits/visit-log.js';
import { Changes } from '../wishlist/changes.js';
import type { WishlistBatch } from '../wishlist/wishlist-batch.js';
import { Counting } from './counting.js';
import { Doors } from './doors.js';
import { Drafts } from './drafts.js';
import { Emails } from './emails.js';
import { Eraser } from './eraser.js';
import { Linker } from './link.js';
import { Merger } from './merge.js';
import { MergeAudit } from './merge-audit.js';
import { NamedVisitors } from './named-visitor.js';
import { Places } from './places.js';
import { createProfileIds, type ProfileIds } from './profile-id.js';
import { Profiles } from './profiles.js';
import { ShopEraser } from './shop-eraser.js';
import { Visitors } from './visitors.js';

export interface IdentityParts {
  readonly atProfile: AtProfile;
  readonly changes: Changes;
  readonly linker: Linker;
  readonly doors: Doors;
  readonly emails: Emails;
  readonly named: NamedVisitors;
  readonly eraser: Eraser;
  /** Of all of the shop's visitors. */
  readonly shopEraser: ShopEraser;
  readonly audit: MergeAudit;
  readonly profiles: Profiles;
  readonly visitors: Visitors;
  readonly profileIds: ProfileIds;
}

/** What is told of what was done, for metrics. */
export interface IdentityFigures {
  /** Visits that were counted one by one. */
  readonly visitsCounted?: (visits: number) => void;
  /** A visitor was erased. */
  readonly erased?: () => void;
}

/**
 * @param maxProducts products that a profile may count @param log of visits, where there is one
 */
export function openIdentity(
  store: Store,
  batch: VisitBatch,
  recordings: Batcher<Recording, string | undefined>,
  appends: Batcher<Append, unknown>,
  wishlists: WishlistBatch,
  maxProducts: number,
  log?: VisitLog,
  { visitsCounted, erased }: IdentityFigures = {},
): IdentityParts {
  const { salt, buckets } = store.deployment;
  const profileIds = createProfileIds(salt, buckets);
  const finishErasure = (profileId: string) => eraser.finish(profileId);
  const atProfile: AtProfile = new AtProfile(store, (from, heir) => merger.merge(from, heir), finishErasure);
  const merger = new Merger(store, (profileId, line) => appends.run({ line, profileId }));
  const doors = new Doors(store, batch, profileIds, atProfile);
  const places = new Places(doors, atProfile);
  const counting = new Counting(store, batch, doors, places, {
    maxProducts,
    log,
    onCounted: visitsCounted,
  });
  const drafts = new Drafts(doors, places, recordings);
  const emails = new Emails(store, atProfile, profileIds);
  const eraser: Eraser = new Eraser(store, doors, atProfile, emails, true, erased);
  const shopEraser = new ShopEraser(store, new Eraser(store, doors, atProfile, emails, false, erased));
  const linker = new Linker(store, doors, merger, atProfile);
  return {
    atProfile,
    changes: new Changes(wishlists, atProfile),
    linker,
    doors,
    emails,
    named: new NamedVisitors(doors, atProfile, emails),
    eraser,
    shopEraser,
    audit: new MergeAudit(store, merger, linker, finishErasure),
    profiles: new Profiles(atProfile, profileIds, emails, store.guestsS),
    visitors: new Visitors(doors, places, counting, drafts, linker, new ProductLimit(store, maxProducts)),
    profileIds,
  };
}
