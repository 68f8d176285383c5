// Puts the parts of identities together: they are made of each other and of nothing else.

import type { Recorder } from '../events/recorder.js';
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

export function openIdentity(store: Store, ledger: Ledger, recorder: Recorder): IdentityParts {
  const { salt, buckets } = store.deployment;
  const merger = new Merger(store, (from, heir) => recorder.recordMerge(from, heir));
  const atProfile = new AtProfile(store, async (from, heir) => void (await merger.merge(from, heir)));
  const identities = new Identities(ledger, createProfileIds(salt, buckets), atProfile);
  const linker = new Linker(store, identities, atProfile, merger);
  return {
    atProfile,
    identities,
    linker,
    profiles: new Profiles(atProfile),
    visitors: new Visitors(identities, linker, recorder),
  };
}
