// Requests of a shop's server with a secret key, one method each. A method throws if the answer is not 200.

// biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
type Json = any;
type Headers = Readonly<Record<string, string>>;

export type Send = (
  method: string,
  path: string,
  body: unknown,
  headers: Headers,
) => Promise<{ readonly status: number; readonly text: string; readonly json: Json }>;

export interface Shop {
  visit(
    identity: object,
    productHandle?: string,
  ): Promise<{ readonly profileId: string; readonly count: number }>;
  count(identity: Readonly<Record<string, string>>, productHandle?: string): Promise<number>;
  reset(identity: object, productHandle?: string): Promise<Json>;
  /** Adds ITEM to the wishlist. @param changes of its fields */
  add(identity: object, changes?: object): Promise<Json>;
  remove(identity: object, changes?: object): Promise<Json>;
  /** The wishlist's items, newest first. */
  items(identity: object): Promise<Json[]>;
  itemCount(identity: object): Promise<Json>;
  share(identity: object, channel?: string): Promise<{ readonly code: string; readonly shareLink: string }>;
  event(identity: object, type?: string, payload?: object): Promise<Json>;
  login(identity: { readonly customerId: string; readonly sessionId: string }): Promise<Json>;
  erase(identity: object): Promise<{ readonly erased: boolean }>;
  exported(identity: Readonly<Record<string, string>>): Promise<Json>;
}

export const HANDLE = 'red-shoe';

export const ITEM = {
  productId: '1001',
  productTitle: 'Red shoe',
  productHandle: HANDLE,
  price: '79.90',
  compareAt: null,
  inventoryAvailable: true,
  quantity: 1,
};

export function shopClient(send: Send, headers: Headers): Shop {
  const ask = async (method: string, path: string, body?: unknown): Promise<Json> => {
    const answer = await send(method, path, body, headers);
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.json;
  };
  const post = (path: string, body: unknown) => ask('POST', path, body);
  return {
    visit: (identity, productHandle = HANDLE) =>
      post('/product/visit?count=true', { identity, productHandle }),
    count: async (identity, productHandle = HANDLE) => {
      const query = new URLSearchParams({ ...identity, productHandle });
      return (await ask('GET', `/product/visit?${query}`)).count;
    },
    reset: (identity, productHandle = HANDLE) => ask('DELETE', '/product/visit', { identity, productHandle }),
    add: (identity, changes = {}) => post('/item/add', { identity, ...ITEM, ...changes }),
    remove: (identity, changes = {}) =>
      post('/item/remove', { identity, productId: ITEM.productId, ...changes }),
    items: async (identity) => (await post('/item/list', { identity })).items,
    itemCount: (identity) => post('/item/count', { identity }),
    share: (identity, channel = 'Link') => post('/share', { identity, channel }),
    event: (identity, type = 'add', payload = {}) => post('/event', { identity, type, payload }),
    login: (identity) => post('/profile/merge', { identity }),
    erase: (identity) => ask('DELETE', '/profile', { identity }),
    exported: (identity) => ask('GET', `/profile?${new URLSearchParams(identity)}`),
  };
}
