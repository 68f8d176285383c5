// Validates parsed JSON and queries. Returns typed, normalised input, which all layers below trust.

import { type Issue, ServiceError } from '../errors.js';
import {
  type Identity,
  isBlank,
  isPlainText,
  normaliseEmail,
  normaliseId,
  trimmed,
} from '../identity-rules.js';
import type { GivenItem, ItemContent, RemovalEvent } from '../item-fields.js';
import {
  type Channel,
  type EventType,
  eventBody,
  guestBody,
  itemAddBody,
  itemCheckBody,
  itemListBody,
  itemRemoveBody,
  mergeBody,
  profileBody,
  profileQuery,
  settingsBody,
  shareBody,
  visitBatchBody,
  visitBody,
  visitListBody,
  visitQuery,
} from './schemas.js';
import { compile } from './validator.js';

declare const UNTRUSTED: unique symbol;
/**
 * A well-formed identity for which the caller may not be authorised yet. Its type keeps operations from forgetting that
 * check.
 */
export interface NamedIdentity {
  readonly [UNTRUSTED]: true;
}

/** Outside this file, only Access.actFor, which authorises the caller, and the command line may call this. */
export function trust(named: NamedIdentity): Identity {
  return named as unknown as Identity;
}

export interface VisitRequest {
  readonly identity: NamedIdentity;
  readonly productHandle: string;
}

export interface EventRequest {
  readonly identity: NamedIdentity;
  readonly type: EventType;
  readonly payload: Readonly<Record<string, unknown>> | undefined;
}

export interface ItemRequest {
  readonly identity: NamedIdentity;
  readonly content: ItemContent;
}

export interface IdentityRequest {
  readonly identity: NamedIdentity;
}

type RawIdentity = Partial<Record<keyof Identity, string | null>> & { customerId?: RawId | null };

type RawVisit = { identity: RawIdentity; productHandle: string };

const checkVisitBody = compile<RawVisit>(visitBody);
const checkVisitBatch = compile<{ visits: RawVisit[] }>(visitBatchBody);
const checkVisitList = compile<{ identity: RawIdentity; productHandles: string[] }>(visitListBody);
const checkVisitQuery = compile<RawIdentity & { productHandle: string }>(visitQuery, 'query');
const checkEvent = compile<{
  identity: RawIdentity;
  type: EventType;
  payload?: Record<string, unknown> | null;
}>(eventBody);
const checkItem = compile<{ identity: RawIdentity } & GivenItem>(itemAddBody);
const checkRemoval = compile<{
  identity: RawIdentity;
  productId: string;
  variantId?: string | null;
  event?: RemovalEvent | null;
}>(itemRemoveBody);
const checkList = compile<{ identity: RawIdentity }>(itemListBody);
const checkItemCheck = compile<{
  identity: RawIdentity;
  products: { productId: RawId; variantId?: RawId | null }[];
}>(itemCheckBody);
const checkShare = compile<{ identity: RawIdentity; channel?: Channel | null }>(shareBody);
const checkGuest = compile<RawIdentity>(guestBody);
const checkProfile = compile<{ identity: RawIdentity }>(profileBody);
const checkProfileQuery = compile<RawIdentity>(profileQuery, 'query');
const checkMerge = compile<{ identity: RawIdentity }>(mergeBody);
const checkSettings = compile<{ autoRemoveAfterPurchase: boolean }>(settingsBody);

type RawId = string | number;

export function readId(id: RawId): string {
  return typeof id === 'number' ? String(id) : normaliseId(id);
}

export function optionalId(id: RawId | null | undefined): string | null {
  return id == null ? null : readId(id);
}

function readIdentity(raw: RawIdentity): NamedIdentity {
  const identity: Identity = {
    customerId: optionalId(raw.customerId),
    sessionId: optionalId(raw.sessionId),
    device: raw.device ?? null,
    locale: raw.locale ?? null,
    email: raw.email ?? null,
    firstName: raw.firstName ?? null,
    lastName: raw.lastName ?? null,
  };
  return identity as unknown as NamedIdentity;
}

export function readVisitBody(body: unknown): VisitRequest {
  return readVisit(checkVisitBody(body));
}

function readVisit({ identity, productHandle }: RawVisit): VisitRequest {
  return { identity: readIdentity(identity), productHandle: trimmed(productHandle) };
}

export function readVisitBatch(body: unknown): { readonly visits: readonly VisitRequest[] } {
  const { visits } = checkVisitBatch(body);
  return { visits: visits.map(readVisit) };
}

export function readVisitList(body: unknown) {
  const { identity, productHandles } = checkVisitList(body);
  return {
    identity: readIdentity(identity),
    productHandles: [...new Set(productHandles.map(trimmed))],
  };
}

interface Query {
  get(name: string): string | string[] | undefined;
}

/**
 * A blank parameter counts as absent, because links are often made from templates.
 * @param faults list to which faults are added; if undefined, they are thrown
 */
function given(query: Query, name: string, faults?: Issue[]): string | undefined {
  const value = query.get(name);
  if (value === undefined) return undefined;
  const message = faultOf(value);
  if (message === undefined) return isBlank(value as string) ? undefined : (value as string);
  const fault = inQuery(name, message);
  if (faults === undefined) throw new ServiceError('invalid_request', undefined, [fault]);
  faults.push(fault);
  return UNREADABLE;
}

/** Stands for a faulty parameter, which must not count as absent. No schema accepts it. */
const UNREADABLE = '\ud800';

const inQuery = (name: string, message: string): Issue => ({ in: 'query', path: `/${name}`, message });

function faultOf(value: string | readonly string[]): string | undefined {
  if (typeof value !== 'string') return 'must be given once';
  return value.isWellFormed() ? undefined : 'must be UTF-8, percent-encoded';
}

export function readFlag(query: Query, name: string): boolean {
  const flag = given(query, name) ?? 'false';
  if (flag === 'true' || flag === 'false') return flag === 'true';
  throw new ServiceError('invalid_request', undefined, [inQuery(name, 'must be one of true, false')]);
}

/** @param loggedIn the storefront's customer, used if the query has no id */
export function readVisitQuery(query: Query, loggedIn: string | null): VisitRequest {
  const faults: Issue[] = [];
  const customerId = given(query, 'customerId', faults);
  const sessionId = given(query, 'sessionId', faults);
  const named = {
    customerId: customerId ?? (sessionId === undefined ? (loggedIn ?? undefined) : undefined),
    sessionId,
    device: given(query, 'device', faults),
    productHandle: given(query, 'productHandle', faults),
  };
  const checked = checkVisitQuery(named, faults);
  return { identity: readIdentity(checked), productHandle: trimmed(checked.productHandle) };
}

export function readEvent(body: unknown): EventRequest {
  const { identity, type, payload } = checkEvent(body);
  return { identity: readIdentity(identity), type, payload: payload ?? undefined };
}

/** Replaces control characters, such as tabs of a spreadsheet, by spaces. */
export function printable(title: string): string {
  return isPlainText(title) ? title : title.replace(/\p{Cc}/gu, ' ');
}

export function readItem(body: unknown): ItemRequest {
  const raw = checkItem(body);
  const content: ItemContent = {
    productId: readId(raw.productId),
    variantId: optionalId(raw.variantId),
    productHandle: trimmed(raw.productHandle),
    productTitle: printable(raw.productTitle),
    variantTitle: raw.variantTitle == null ? null : printable(raw.variantTitle),
    image: raw.image ?? null,
    price: raw.price,
    compareAt: raw.compareAt ?? null,
    inventoryAvailable: raw.inventoryAvailable,
    quantity: raw.quantity,
    source: raw.source ?? 'pdp',
    currencyCode: raw.currencyCode?.toUpperCase(),
    countryCode: raw.countryCode ?? undefined,
    properties: raw.properties ?? undefined,
  };
  return { identity: readIdentity(raw.identity), content };
}

export function readRemoval(body: unknown) {
  const { identity, productId, variantId, event } = checkRemoval(body);
  return {
    identity: readIdentity(identity),
    productId: readId(productId),
    variantId: optionalId(variantId),
    event: event ?? 'remove',
  };
}

export function readList(body: unknown): IdentityRequest {
  return { identity: readIdentity(checkList(body).identity) };
}

export function readItemCheck(body: unknown) {
  const { identity, products } = checkItemCheck(body);
  return {
    identity: readIdentity(identity),
    products: products.map(({ productId, variantId }) => ({
      productId: readId(productId),
      variantId: optionalId(variantId),
    })),
  };
}

export function readShare(body: unknown): IdentityRequest & { readonly channel: Channel } {
  const { identity, channel } = checkShare(body);
  return { identity: readIdentity(identity), channel: channel ?? 'Link' };
}

export function readGuest(body: unknown): IdentityRequest {
  return { identity: readIdentity(checkGuest(body)) };
}

const PROFILE_NAMES = ['customerId', 'sessionId', 'email'] as const;

/**
 * @param body undefined to use the query
 * @throws ServiceError, also if query and body name different visitors
 */
export function readProfile(
  body: unknown,
  query: Query,
): IdentityRequest & { readonly namedIn: 'body' | 'query' } {
  const [customerId, sessionId, email] = PROFILE_NAMES.map((name) => given(query, name));
  const isNamed = [customerId, sessionId, email].some((value) => value !== undefined);
  const asked = () => readIdentity(checkProfileQuery({ customerId, sessionId, email }));
  if (body === undefined) return { identity: asked(), namedIn: 'query' };
  const identity = readIdentity(checkProfile(body).identity);
  if (!isNamed) return { identity, namedIn: 'body' };
  const [ofBody, ofQuery] = [trust(identity), trust(asked())];
  const issues = PROFILE_NAMES.filter((name) => ofQuery[name] !== null)
    .filter((name) => ofQuery[name] !== ofBody[name])
    .filter((name) => name !== 'email' || normaliseEmail(ofQuery.email) !== normaliseEmail(ofBody.email))
    .map((name) => inQuery(name, 'names another visitor than the body'));
  if (issues.length > 0) throw new ServiceError('invalid_request', undefined, issues);
  return { identity, namedIn: 'body' };
}

export function readMerge(body: unknown): IdentityRequest {
  return { identity: readIdentity(checkMerge(body).identity) };
}

export function readSettings(body: unknown) {
  const { autoRemoveAfterPurchase } = checkSettings(body);
  return { autoRemoveAfterPurchase };
}
