import type { CacheLifetime, EffectivePrice, Provenance, TokenCounts, Usage } from '../../contract/services.ts';
import { cacheTokens } from '../../protocols/usage/parts.ts';
import { relayedOutput, type UsageReading } from '../../protocols/usage/reading.ts';
import type { Ending } from '../ledger/ending.ts';
import { NO_TOKENS } from './prices.ts';

/** What a forwarded request used and where each number came from. */
export interface Bill {
  readonly usage: Usage;
  readonly provenance: Readonly<Record<keyof TokenCounts | 'cost', Provenance>> & {
    readonly server_tools?: Provenance;
  };
  /** Whether nothing was used by the upstream's word, whatever its answer says beside. */
  readonly is_empty?: true;
}

/** How a forwarded request ended, and what is known of it beside its response. */
export interface Circumstances {
  readonly ending: Ending;
  readonly aborted: boolean;
  readonly input_estimate: number;
  readonly output_max: number;
  readonly cache_asked: CacheLifetime;
  readonly relayed_bytes: number;
  /** Tools that cost something when they are used, by name. */
  readonly fees: EffectivePrice['server_tools_pico'];
}

/** The bill of a request that used nothing, by the upstream's word. */
export function emptyBill(): Bill {
  return { ...billOf(NO_TOKENS, 'upstream', 'upstream', 'upstream'), is_empty: true };
}

/** Decides what a forwarded request used. Every number the upstream did not report is an estimate, never nothing. */
export function billFor(reading: UsageReading, { ending, aborted, ...request }: Circumstances): Bill {
  const guess = aborted ? 'abort' : 'estimate';
  if (ending === 'refused') return emptyBill();
  const { reported, seen, complete, deltas } = reading;
  // Nothing that a model said: nothing to charge.
  if (ending === 'failed' && !seen && deltas === 0)
    return { ...billOf(NO_TOKENS, 'estimate', 'estimate', 'estimate'), is_empty: true };

  const cache = cacheTokens(reported, request.cache_asked);
  const input = inputTokens(reported, cache, request.input_estimate);
  const final = complete && reported.output_tokens !== undefined && isCredible(reading);
  const output = final
    ? reported.output_tokens!
    : Math.max(
        reported.output_tokens ?? 0,
        Math.min(request.output_max, relayedOutput(reading, request.relayed_bytes)),
      );
  const bill = billOf(
    withAudio({ input, output, ...cache }, reported),
    reported.input_tokens === undefined ? guess : 'upstream',
    final ? 'upstream' : guess,
    seen ? 'upstream' : guess,
  );
  const server_tools = toolsUsed(reading, final, request.fees);
  if (server_tools === undefined) return bill;
  return {
    usage: { ...bill.usage, server_tools },
    provenance: { ...bill.provenance, server_tools: final ? 'upstream' : guess },
  };
}

/** Deltas that one token can be cut into at most: there are servers that send letter by letter. */
const DELTAS_PER_TOKEN = 20;

/** Whether a final count can be one: every delta was a token, or one before it was; a count from the start need not be final. */
function isCredible({ reported, counted, deltas }: UsageReading): boolean {
  const { output_tokens = 0 } = reported;
  return output_tokens >= deltas || (counted && output_tokens * DELTAS_PER_TOKEN >= deltas);
}

/**
 * Uses of tools by name; `undefined` without any. Before the final count, uses that began count as well where they cost
 * something.
 */
export function toolsUsed(
  { server_tools: reported, tools_begun: begun }: UsageReading,
  final: boolean,
  fees: EffectivePrice['server_tools_pico'],
): Record<string, number> | undefined {
  if (reported === undefined && (final || begun === undefined)) return undefined;
  const used: Record<string, number> = {};
  for (const tool in reported) if (reported[tool]! > 0) used[tool] = reported[tool]!;
  if (!final) {
    for (const tool in begun) if (tool in fees) used[tool] = Math.max(reported?.[tool] ?? 0, begun[tool]!);
  }
  return Object.keys(used).length === 0 ? undefined : used;
}

/** Input that was not cached; while the upstream has not said how much, what the estimate leaves of it. */
export function inputTokens(
  { input_tokens }: UsageReading['reported'],
  { cache_read, cache_write_5m, cache_write_1h }: ReturnType<typeof cacheTokens>,
  estimate: number,
): number {
  return input_tokens ?? Math.max(0, estimate - cache_read - cache_write_5m - cache_write_1h);
}

/** Tokens with what of them the upstream counted as audio. Audio has no discount for what is cached. */
export function withAudio(tokens: TokenCounts, reported: UsageReading['reported']): Usage {
  const { audio_input_tokens = 0, audio_output_tokens = 0 } = reported;
  if (audio_input_tokens === 0 && audio_output_tokens === 0) return tokens;
  const heard = Math.min(audio_input_tokens, tokens.input + tokens.cache_read);
  const input = Math.max(tokens.input, heard);
  return {
    ...tokens,
    input,
    cache_read: tokens.cache_read - (input - tokens.input),
    audio: { input: heard, output: Math.min(audio_output_tokens, tokens.output) },
  };
}

function billOf(usage: Usage, input: Provenance, output: Provenance, cache: Provenance): Bill {
  const all = [input, output, cache];
  const cost = all.includes('abort') ? 'abort' : all.includes('estimate') ? 'estimate' : 'upstream';
  return {
    usage,
    provenance: { input, output, cache_read: cache, cache_write_5m: cache, cache_write_1h: cache, cost },
  };
}
