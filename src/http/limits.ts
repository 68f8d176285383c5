// Sizes that the contract promises, in bytes.

/** Body of a request. */
export const MAX_BODY = 64 * 1024;
/** Body of a batch of visits. */
export const MAX_BATCH_BODY = 512 * 1024;
/** Body of a webhook: an order with hundreds of lines. */
export const MAX_DELIVERY = 1024 * 1024;
/** Payload of an event, or properties of an item, as compact JSON. */
export const MAX_PAYLOAD = 16 * 1024;
