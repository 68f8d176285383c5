// Sizes that the contract promises, in bytes.

/** Body of a request. */
export const MAX_BODY = 64 * 1024;
/** Payload of an event, as compact JSON. */
export const MAX_PAYLOAD = 16 * 1024;
