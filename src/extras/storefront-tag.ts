// The tag of the operations that a shop's pages call, which several extras have.

export const STOREFRONT_TAG = { Storefront: "For a shop's pages" };
