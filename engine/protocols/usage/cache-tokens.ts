import type { CacheLifetime, TokenCounts } from '../../contract/services.ts';
import type { UsageReading } from './reading.ts';

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
