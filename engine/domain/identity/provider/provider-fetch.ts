import { getCACertificates } from 'node:tls';
import type { Clock } from '../../../base/contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../../base/contract/start-error.ts';
import { isLoopbackUrl } from '../../../base/kit/net/addresses.ts';
import { readCertificates } from '../../../base/kit/net/certificates.ts';
import { exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import type { Way } from '../../../base/kit/net/proxy-route.ts';
import { wholeResponse } from '../../../base/kit/net/whole-response.ts';
import { ProviderError } from './provider.ts';

/** A request to the identity provider, answered with the whole body read. Raises ProviderError. */
export type ProviderFetch = (
  url: string,
  init: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly body?: unknown;
  },
) => Promise<Response>;

/**
 * Creates the fetch function for an identity provider: responses are complete within `timeout_seconds`, at most 1 MiB, and without
 * redirects. Raises StartError for an unusable `ca_file`.
 */
export function createProviderFetch(options: {
  readonly ca_file?: string | undefined;
  readonly timeout_seconds: number;
  readonly clock: Clock;
  /** Proxies by address. Raises UnusableProxy. */
  readonly proxyRouteTo: (url: URL) => Way;
}): ProviderFetch {
  const { ca_file, timeout_seconds, clock, proxyRouteTo } = options;
  const ca = ca_file === undefined ? undefined : [...getCACertificates('default'), ...certificatesIn(ca_file)];
  return async (url, { method, headers, body }) => {
    const { origin, pathname, protocol } = new URL(url);
    const what = `${method} ${origin}${pathname}`;
    const is_plain = protocol !== 'https:';
    if (is_plain && !isLoopbackUrl(origin)) {
      throw new ProviderError('invalid', `${what}: the identity provider must have an https address`);
    }
    const timeout = new AbortController();
    const timer = clock.after(timeout_seconds * 1000, () =>
      timeout.abort(
        new ProviderError('unavailable', `${what}: no complete response within ${timeout_seconds} seconds`),
      ),
    );
    try {
      const answer = await exchange(url, {
        method,
        headers,
        ...(body !== undefined && body !== null && { body: String(body) }),
        ...(ca && { ca }),
        // Plain HTTP is for providers on this machine, without a proxy.
        ...(!is_plain && { proxy: proxyRouteTo(new URL(origin)).proxy }),
        signal: timeout.signal,
      });
      const problem = statusProblem(answer.status);
      if (problem !== undefined) throw new ProviderError(problem[0], `${what}: ${problem[1]}`);
      if (answer.ending === 'too_large')
        throw new ProviderError('invalid', `${what}: the response is longer than 1 MiB`);
      if (answer.ending === 'too_late') throw timeout.signal.reason;
      if (answer.ending === 'cut') throw Object.assign(new Error('cut'), { code: 'ECONNRESET' });
      return wholeResponse(answer.status, answer.headers, answer.body);
    } catch (error) {
      throw error instanceof ProviderError ? error : networkProblem(error, what, timeout_seconds);
    } finally {
      timer.close();
    }
  };
}

function statusProblem(status: number): [ProviderError['problem'], string] | undefined {
  if (status === 429 || (status >= 500 && status <= 599)) return ['unavailable', `it answers HTTP ${status}`];
  if (status >= 300 && status <= 399) {
    return ['invalid', `it answers HTTP ${status}, a redirect, which is not followed`];
  }
  return status >= 200 && status <= 499 ? undefined : ['invalid', `it answers HTTP ${status}`];
}

function networkProblem(error: unknown, what: string, timeout_seconds: number): ProviderError {
  const reason = formatNetworkError(error, timeout_seconds);
  if (!reason.startsWith('its certificate')) return new ProviderError('unavailable', `${what}: ${reason}`);
  const help = reason.includes('not trusted')
    ? '; set auth.oidc.ca_file to a file with the certificate of its authority'
    : '';
  return new ProviderError('invalid', `${what}: ${reason}${help}`);
}

/** Raises StartError where a file holds anything but certificates. */
function certificatesIn(file: string): string[] {
  try {
    return readCertificates(file);
  } catch (error) {
    throw new StartError(`the file ${file} (auth.oidc.ca_file) ${(error as Error).message}`, {
      exit_code: EXIT_CONFIGURATION,
      cause: error,
    });
  }
}
