// Puts the parts of identities together: they are made of each other and of nothing else.

import { AtProfile } from '../redis/at-profile.js';
import type { Store } from '../redis/store.js';
import type { Ledger } from '../visits/ledger.js';
import { Identities } from './identities.js';
import { Linker } from './link.js';
import { Merger } from './merge.js';
import { createProfileIds } from './profile-id.js';
import { Profiles } from './profiles.js';
import { Visitors } from './visitors.js';

export interface IdentityParts {
  readonly atProfile: AtProfile;
  readonly identities: Identities;
  readonly linker: Linker;
  readonly profiles: Profiles;
  readonly visitors: Visitors;
}

/** @param recordMerge tells analysts of a merge; see Merger */
export function openIdentity(
  store: Store,
  ledger: Ledger,
  recordMerge: (from: string, heir: string) => Promise<void>,
): IdentityParts {
  const { salt, buckets } = store.deployment;
  const merger = new Merger(store, recordMerge);
  const atProfile = new AtProfile(store, async (from, heir) => void (await merger.merge(from, heir)));
  const identities = new Identities(ledger, createProfileIds(salt, buckets), atProfile);
  const linker = new Linker(store, identities, atProfile, merger);
  return {
    atProfile,
    identities,
    linker,
    profiles: new Profiles(atProfile),
    visitors: new Visitors(identities, linker),
  };
}
