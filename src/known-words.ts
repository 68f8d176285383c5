// Columns that figures are grouped by have few values: a stranger's own word for a device, a source or a channel counts as
// `other`. Otherwise anybody could add rows to every figure. A server's words are taken as they are.

const DEVICES = ['desktop', 'mobile', 'phone', 'tablet', 'tv', 'app'] as const;
export const SOURCES = ['pdp', 'collection', 'cart', 'wishlist', 'email', 'pdpSmartSave', 'other'] as const;
export const CHANNELS = ['Link', 'Email', 'Facebook', 'Twitter', 'Pinterest'] as const;

const OTHER = 'other';

/** A word in any case -> how it is kept. */
const spellings = (words: readonly string[]) => new Map(words.map((word) => [word.toLowerCase(), word]));
const SPELLINGS = {
  device: spellings(DEVICES),
  source: spellings(SOURCES),
  channel: spellings(CHANNELS),
} as const;

/** The known word, `other`, or an empty text for a blank one. */
export function knownWord(column: keyof typeof SPELLINGS, text: string): string {
  const words = SPELLINGS[column];
  return words.get(text) ?? words.get(text.trim().toLowerCase()) ?? (text.trim() === '' ? '' : OTHER);
}
