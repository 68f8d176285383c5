// What a PromQL expression reads: the names of metrics and the labels that it groups and matches by. Not a parser
// (promtool is one): it takes away what is no metric, and what is left must be.

const FUNCTIONS = new Set([
  'histogram_quantile',
  'rate',
  'delta',
  'changes',
  'sum',
  'max',
  'min',
  'avg',
  'count',
]);
const WORDS = new Set(['or', 'and', 'unless']);

export interface Reads {
  readonly metrics: readonly string[];
  readonly labels: readonly string[];
}

export function readsOf(expression: string): Reads {
  const labels: string[] = [];
  const bare = expression
    .replace(/\b(?:by|without|on|ignoring|group_left|group_right) *\(([^)]*)\)/g, (_, list: string) => {
      labels.push(...list.split(',').map((label) => label.trim()));
      return ' ';
    })
    .replace(/\{([^}]*)\}/g, (_, matchers: string) => {
      for (const [, label = ''] of matchers.matchAll(/(\w+) *(?:=~|!~|!=|=)/g)) labels.push(label);
      return ' ';
    })
    .replace(/\[[^\]]*\]/g, ' ');
  const words = bare.match(/[A-Za-z_:][\w:]*/g) ?? [];
  return {
    metrics: [...new Set(words.filter((word) => !FUNCTIONS.has(word) && !WORDS.has(word)))],
    labels: [...new Set(labels.filter(Boolean))],
  };
}
