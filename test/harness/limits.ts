// Settings under which one address may send what a test wants: every caller of a test has the same one.

export const UNLIMITED = { STRANGER_RATE_LIMIT: '0', STRANGER_NEW_VISITORS: '0' };
