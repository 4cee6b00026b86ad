/** Edit distance of two texts; a swap of neighbours counts as one edit (optimal string alignment). */
export function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const current = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(previous[j]! + 1, current[j - 1]! + 1, previous[j - 1]! + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, before[j - 2]! + 1);
      current[j] = best;
    }
    before = previous;
    previous = current;
  }
  return previous[b.length]!;
}

/** Most edits of a typo; short words allow two only with the same beginning (`fale`, `fail`). */
function tolerance(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  if (length < 4 || (length === 4 && a.slice(0, 2) !== b.slice(0, 2))) return 1;
  return length <= 8 ? 2 : 3;
}

/** The word that was probably meant; `undefined` if none is close. */
export function closest(word: string, known: Iterable<string>): string | undefined {
  const wanted = word.toLowerCase().replaceAll('-', '_');
  let best: string | undefined;
  let best_distance = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) > 3) continue;
    const other = candidate.toLowerCase().replaceAll('-', '_');
    const distance = editDistance(wanted, other);
    if (distance <= tolerance(wanted, other) && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

const wordsOf = (key: string): string[] => key.toLowerCase().split(/[_-]/);

/**
 * The key that was probably meant: one with a similar spelling, or the only one that shares whole words (`limit` -> `limit_usd`,
 * `authentication` -> `auth`, `family` -> `families`).
 */
export function closestKey(key: string, known: readonly string[]): string | undefined {
  const alike = closest(key, known);
  if (alike !== undefined) return alike;
  const words = wordsOf(key);
  const kin = [
    (other: string) => words.every((word) => wordsOf(other).includes(word)),
    (other: string) => wordsOf(other).every((word) => words.includes(word)),
    (other: string) => wordsOf(other)[0] === words[0] && words.length > 1,
    (other: string) => Math.min(key.length, other.length) > 3 && (key.startsWith(other) || other.startsWith(key)),
    (other: string) => key.replace(/y$/, 'ies') === other || other.replace(/y$/, 'ies') === key,
  ];
  for (const isKin of kin) {
    const candidates = known.filter(isKin);
    if (candidates.length === 1) return candidates[0];
  }
  return undefined;
}

/** Help for a value with syntax that YAML does not have: a variable, a `//` comment. */
function foreignSyntaxHelp(value: string): string | undefined {
  if (/^\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})$/.test(value)) return 'write the value out: variables are not substituted';
  return /\s\/\/(?:\s|$)/.test(value) ? 'a comment starts with #, not with //' : undefined;
}

/** Help text `did you mean ...?` if a known word is close; else `otherwise`. */
export function didYouMean<Otherwise extends string | undefined = undefined>(
  word: string,
  known: Iterable<string>,
  otherwise?: Otherwise,
): string | Otherwise {
  const meant = closest(word, known);
  return meant === undefined ? (foreignSyntaxHelp(word) ?? (otherwise as Otherwise)) : `did you mean \`${meant}\`?`;
}

/** A list for people: `a, b or c`, cut off after `limit` entries. */
export function listed(words: readonly string[], limit = 8): string {
  if (words.length > limit) return `${words.slice(0, limit).join(', ')}, ... (${words.length} in all)`;
  const last = words.at(-1) ?? 'nothing';
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} or ${last}`;
}

/** A count with its noun: `1 file`, `2 files`. */
export function counted(many: number, one: string, several = `${one}s`): string {
  return `${many} ${many === 1 ? one : several}`;
}

/** Help text with the name that was probably meant, or all known names, as in `upstreams: main or spare`. */
export function oneOf(word: string, known: readonly string[], what: string, none = `there are no ${what}`): string {
  return didYouMean(word, known, known.length === 0 ? none : `${what}: ${listed(known)}`);
}

const partsOf = (name: string): string[] => name.toLowerCase().split(/[^\p{L}\p{N}]+/u);

/** Whether two words differ only by a typo or plural: `enginering` and `engineering`, `interns` and `intern`. */
function isTypo(a: string, b: string): boolean {
  const shorter = Math.min(a.length, b.length);
  if (shorter < 3 || /\d/.test(a + b)) return false;
  if (a === `${b}s` || b === `${a}s`) return true;
  if (shorter < 5 || a[0] !== b[0]) return false;
  return editDistance(a, b) <= (shorter < 9 ? 1 : 2);
}

/** Stricter than `closest`, for names that need not be known: `team-1` and `team-2` differ, as do `eng-eu` and `eng-us`. */
export function almost(name: string, known: Iterable<string>): string | undefined {
  const parts = partsOf(name);
  for (const other of known) {
    const others = partsOf(other);
    if (name === other) continue;
    if (parts.join('') === others.join('')) return other;
    const differing = parts.flatMap((part, at) => (part === others[at] ? [] : [[part, others[at] ?? ''] as const]));
    const [pair, more] = differing;
    if (parts.length === others.length && more === undefined && pair !== undefined && isTypo(...pair)) return other;
  }
  return undefined;
}
