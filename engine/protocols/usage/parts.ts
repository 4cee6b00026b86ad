import type { CacheLifetime, TokenCounts } from '../../contract/services.ts';
import type { UsageReading } from './reading.ts';

/** What one run of a model used. */
export interface UsedPart {
  /** As the upstream calls it; absent: the model that answered. */
  readonly model?: string;
  readonly tokens: TokenCounts;
  /** Whether it is a run of another model that was asked in between, which may be the same one again. */
  readonly is_aside?: true;
}

/** Runs that answer, or make room for an answer; all others are asked in between. */
const OF_ANSWER: ReadonlySet<string> = new Set(['message', 'fallback_message', 'compaction']);

/** Runs whose tokens are in the totals as well; those of all others come on top of them. */
const IN_TOTALS: ReadonlySet<string> = new Set(['message', 'fallback_message']);

/**
 * What the runs of an answer used, each by itself, and last what the totals have beyond all of them; `undefined` where the
 * upstream does not tell them apart. Totals may leave runs out, and runs may be missing: together nothing is.
 */
export function partsOf(
  { iterations }: UsageReading,
  totals: TokenCounts,
  asked: CacheLifetime,
): readonly UsedPart[] | undefined {
  if (iterations === undefined) return undefined;
  const parts = iterations.map(({ type, model, reported }) => {
    const { input_tokens: input = 0, output_tokens: output = 0 } = reported;
    const tokens: TokenCounts = { input, output, ...cacheTokens(reported, asked) };
    const is_aside = !OF_ANSWER.has(type);
    return { type, part: { tokens, ...(model !== undefined && { model }), ...(is_aside && { is_aside }) } };
  });
  const told = sumOf(parts.filter(({ type }) => IN_TOTALS.has(type)).map(({ part }) => part));
  const rest = eachKind((kind) => Math.max(0, totals[kind] - told[kind]));
  const used = parts.map(({ part }) => part).filter(({ tokens }) => tokenSum(tokens) > 0);
  return tokenSum(rest) === 0 ? used : [...used, { tokens: rest }];
}

/** All tokens of some parts. */
export function sumOf(parts: readonly Pick<UsedPart, 'tokens'>[]): TokenCounts {
  if (parts.length === 1) return parts[0]!.tokens;
  return eachKind((kind) => parts.reduce((sum, { tokens }) => sum + tokens[kind], 0));
}

function eachKind(count: (kind: keyof TokenCounts) => number): TokenCounts {
  return {
    input: count('input'),
    output: count('output'),
    cache_read: count('cache_read'),
    cache_write_5m: count('cache_write_5m'),
    cache_write_1h: count('cache_write_1h'),
  };
}

function tokenSum(tokens: TokenCounts): number {
  return Object.values(tokens).reduce((sum, count) => sum + count, 0);
}

/**
 * Splits cache writes by lifetime. What the upstream's split leaves open is counted at the longest lifetime the request
 * asked for, so that a one-hour write is never priced as a five-minute one; a split larger than the total stands.
 */
export function cacheTokens(
  reported: UsageReading['reported'],
  asked: CacheLifetime,
): Omit<TokenCounts, 'input' | 'output'> {
  const short = reported.ephemeral_5m_input_tokens ?? 0;
  const long = reported.ephemeral_1h_input_tokens ?? 0;
  const open = Math.max(0, (reported.cache_creation_input_tokens ?? 0) - short - long);
  return {
    cache_read: reported.cache_read_input_tokens ?? 0,
    cache_write_5m: asked === '1h' ? short : short + open,
    cache_write_1h: asked === '1h' ? long + open : long,
  };
}
