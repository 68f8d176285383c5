// Composes the parts of profiles.

import type { Issue } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { Store } from '../redis/store.js';
import { Emails } from './emails.js';
import { Eraser } from './eraser.js';
import type { ItemIndex } from './item-index.js';
import type { AskLink } from './link.js';
import { Locator } from './locator.js';
import { Login } from './login.js';
import { Members } from './members.js';
import { type AppendMerge, type Limits, Merger } from './merge.js';
import { findNamed } from './named-visitor.js';
import { Pending } from './pending.js';
import { createProfileIds } from './profile-id.js';
import { Profiles } from './profiles.js';
import { type OnFailed, Resume } from './resume.js';
import { Visitors } from './visitors.js';

export type ProfileParts = ReturnType<typeof openProfiles>;

export interface ProfileStats {
  readonly erased?: () => void;
  readonly addressesDropped?: (profiles: number) => void;
  readonly mergeLeftOut?: (kind: 'product' | 'item', fields: number) => void;
  readonly sessionLeftOut?: () => void;
  readonly failed?: OnFailed;
}

export interface ProfileSpec {
  readonly store: Store;
  readonly askLink: AskLink;
  readonly appendMerge: AppendMerge;
  readonly limits: Limits;
  readonly stats?: ProfileStats;
  readonly itemIndexes?: readonly ItemIndex[];
}

export function openProfiles(spec: ProfileSpec) {
  const { store, askLink, appendMerge, limits, stats = {}, itemIndexes = [] } = spec;
  const { salt, buckets } = store.deployment;
  const profileIds = createProfileIds(salt, buckets);
  const pending = new Pending(store);
  const members = new Members(store);
  const merger = new Merger({
    store,
    members,
    pending,
    append: appendMerge,
    limits,
    itemIndexes,
    onLeftOut: stats.mergeLeftOut,
    release: (session, link) => eraser.release(session, link),
  });
  const locator = new Locator(store, askLink, merger, profileIds);
  const login = new Login({ store, locator, members, merger, pending, onFull: stats.sessionLeftOut });
  const emails = new Emails(store, locator, stats.addressesDropped);
  const eraser: Eraser = new Eraser({
    store,
    locator,
    merger,
    emails,
    pending,
    itemIndexes,
    onErased: stats.erased,
  });
  const visitors = new Visitors(locator, login);
  return {
    locator,
    members,
    merger,
    emails,
    eraser,
    pending,
    visitors,
    profileIds,
    findNamed: (identity: Identity, where?: Issue['in']) => findNamed(locator, emails, identity, where),
    resume: new Resume({ store, pending, merger, members, eraser, onFailed: stats.failed ?? (() => {}) }),
    profiles: new Profiles(store, visitors, emails, profileIds),
  };
}
