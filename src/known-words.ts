// Known devices, sources and channels. Other words from browsers become `other`, because strangers could add rows to
// every statistic. Words from servers are kept.

const DEVICES = ['desktop', 'mobile', 'phone', 'tablet', 'tv', 'app'] as const;
export const SOURCES = ['pdp', 'collection', 'cart', 'wishlist', 'email', 'pdpSmartSave', 'other'] as const;
export const CHANNELS = ['Link', 'Email', 'Facebook', 'Twitter', 'Pinterest'] as const;

const OTHER = 'other';

const spellings = (words: readonly string[]) => new Map(words.map((word) => [word.toLowerCase(), word]));
const SPELLINGS = {
  device: spellings(DEVICES),
  source: spellings(SOURCES),
  channel: spellings(CHANNELS),
} as const;

export function knownWord(column: keyof typeof SPELLINGS, text: string): string {
  const words = SPELLINGS[column];
  return words.get(text) ?? words.get(text.trim().toLowerCase()) ?? (text.trim() === '' ? '' : OTHER);
}
