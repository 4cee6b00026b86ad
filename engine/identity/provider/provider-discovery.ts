import type { Clock, Log } from '../../contract/services.ts';
import type { ProviderError } from './provider.ts';
import { toProviderError } from './provider-errors.ts';

const RENEWED_MS = 3_600_000;
/** How soon to try again after a failed renewal of what still serves. */
const RETRY_MS = 60_000;

/**
 * What the discovery document says: read when it is first needed, once for everybody who waits for it, and again after an
 * hour. While the provider is down the former serves on; a failure is never kept. Raises ProviderError.
 */
export function renewHourly<T>(
  read: () => Promise<T>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): () => Promise<T> {
  let known: { readonly document: T; readonly due_at: number } | undefined;
  let reading: Promise<T> | undefined;

  const renew = async (): Promise<T> => {
    try {
      const document = await read();
      known = { document, due_at: clock.monotonic() + RENEWED_MS };
      return document;
    } catch (error) {
      const failure: ProviderError = toProviderError(error, 'discovery document', []);
      if (known === undefined || failure.problem !== 'unavailable') throw failure;
      log.warn({ reason: failure.message }, 'the discovery document of the identity provider could not be renewed');
      known = { document: known.document, due_at: clock.monotonic() + RETRY_MS };
      return known.document;
    }
  };

  return async () => {
    if (known !== undefined && clock.monotonic() < known.due_at) return known.document;
    reading ??= renew().finally(() => {
      reading = undefined;
    });
    return reading;
  };
}
