import { getCACertificates } from 'node:tls';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import type { Clock } from '../../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { isLoopbackUrl } from '../../kit/net/addresses.ts';
import { readCertificates } from '../../kit/net/certificates.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { openTlsTunnelInTime, placeOf } from '../../kit/net/tunnel.ts';
import type { Way } from '../../kit/net/way.ts';
import { wholeResponse } from '../../kit/net/whole-response.ts';
import { readAll } from '../../kit/read-all.ts';
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

const MAX_BODY_BYTES = 1_048_576;

/**
 * Requests to one identity provider: every answer is complete within `timeout_seconds`, of at most 1 MiB and from the
 * address that was asked. Raises StartError for an unusable `ca_file`.
 */
export function createProviderFetch(options: {
  readonly ca_file?: string | undefined;
  readonly timeout_seconds: number;
  readonly clock: Clock;
  /** How each of its addresses is reached. Raises UnusableProxy. */
  readonly wayTo: (url: URL) => Way;
}): ProviderFetch {
  const { ca_file, timeout_seconds, clock, wayTo } = options;
  const ca = ca_file === undefined ? undefined : [...getCACertificates('default'), ...certificatesIn(ca_file)];
  // No connection is kept: one that the provider is just closing would lose a code or refresh token that is good once.
  const agent = new Agent({ allowH2: false, pipelining: 0, connect: connectorBy(wayTo, ca) });
  return async (url, { method, headers, body }) => {
    const { origin, pathname, search } = new URL(url);
    const what = `${method} ${origin}${pathname}`;
    if (!origin.startsWith('https:') && !isLoopbackUrl(origin)) {
      throw new ProviderError('invalid', `${what}: the identity provider has to be asked by https`);
    }
    const patience = new AbortController();
    const timer = clock.after(timeout_seconds * 1000, () =>
      patience.abort(new ProviderError('unavailable', `${what}: no complete answer within ${timeout_seconds} seconds`)),
    );
    try {
      const answer = await agent.request({
        origin,
        path: `${pathname}${search}`,
        method: method as Dispatcher.HttpMethod,
        headers,
        body: body === undefined || body === null ? null : String(body),
        signal: patience.signal,
      });
      return await readAnswer(answer, what);
    } catch (error) {
      throw error instanceof ProviderError ? error : networkTrouble(error, what, timeout_seconds);
    } finally {
      timer.close();
    }
  };
}

/** Connects to a provider directly or through a proxy; plain HTTP is for providers on this machine, which no proxy reaches. */
function connectorBy(wayTo: (url: URL) => Way, ca: string[] | undefined): buildConnector.connector {
  const connectDirectly = buildConnector({ allowH2: false, ...(ca && { ca }) });
  return (options, done) => {
    const url = new URL(`${options.protocol}//${options.host}`);
    let proxy: URL | undefined;
    try {
      ({ proxy } = wayTo(url));
    } catch (error) {
      done(error as Error, null);
      return;
    }
    if (proxy === undefined) {
      connectDirectly(options, done);
      return;
    }
    openTlsTunnelInTime(placeOf(url), proxy, { ALPNProtocols: ['http/1.1'], ...(ca && { ca }) }).then(
      (socket) => done(null, socket),
      (error) => done(error, null),
    );
  };
}

async function readAnswer({ statusCode, headers, body }: Dispatcher.ResponseData, what: string): Promise<Response> {
  // A body that is let go of before its end fails, and an error that nobody listens to ends the process.
  body.on('error', () => {});
  const problem = statusProblem(statusCode);
  if (problem !== undefined) {
    body.destroy();
    throw new ProviderError(problem[0], `${what}: ${problem[1]}`);
  }
  const tooLong = () => new ProviderError('invalid', `${what}: the answer is longer than 1 MiB`);
  return wholeResponse(statusCode, headers, await readAll(body, MAX_BODY_BYTES, tooLong));
}

function statusProblem(status: number): [ProviderError['problem'], string] | undefined {
  if (status === 429 || (status >= 500 && status <= 599)) return ['unavailable', `it answers HTTP ${status}`];
  if (status >= 300 && status <= 399) {
    return ['invalid', `it answers HTTP ${status} and leads elsewhere, which is not followed`];
  }
  return status >= 200 && status <= 499 ? undefined : ['invalid', `it answers HTTP ${status}`];
}

function networkTrouble(error: unknown, what: string, timeout_seconds: number): ProviderError {
  const reason = formatNetworkError(error, timeout_seconds);
  if (!reason.startsWith('its certificate')) return new ProviderError('unavailable', `${what}: ${reason}`);
  const help = reason.includes('not trusted') ? '; name a file with that of its authority in auth.oidc.ca_file' : '';
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
