import { SELFCHECK_PATH } from '../../../contract/selfcheck-endpoint.ts';
import { formatNetworkError } from '../../../kit/net/format-network-error.ts';
import { printableLine } from '../../../kit/text/printable.ts';
import type { SelfCheckOutcome } from '../../../selfcheck/check.ts';
import { createAsker } from '../../../selfcheck/create-ask.ts';
import { type PathSubject, probeHeaders, probeLargeBody, probeStream } from '../../../selfcheck/path/probes.ts';
import { readArrived } from '../../../selfcheck/path/read-arrived.ts';
import { readAnswer } from '../../../selfcheck/read-answer.ts';
import type { Ask } from '../../../selfcheck/subject.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { sizeText } from '../sizes.ts';
import { announceBody } from './announce-body.ts';
import type { PublicGiven } from './public-url.ts';

/** Default of widespread proxies. */
const USUAL_LIMIT_BYTES = 1024 * 1024;
const NAME_MAX = 40;

/** Whether proxies let requests through that are as large as the gateway itself takes; no byte of them is sent. */
export async function examineLargeBodies({ host, root_url, where }: PublicGiven): Promise<Diagnosis[]> {
  const { config, timeout_seconds: seconds } = host;
  const { body_bytes } = config.server.limits;
  const base = { id: 'public_url.body_size', title: 'large requests', where };
  try {
    const whole = await announceBody(root_url, { bytes: body_bytes, seconds });
    if (whole.kind === 'taken') {
      return [
        {
          ...base,
          verdict: 'ok',
          found: `requests of ${sizeText(body_bytes)} (server.limits.body_bytes) are let through`,
        },
      ];
    }
    if (whole.kind === 'unclear') {
      const why = whole.status === undefined ? 'no answer in time' : `status ${whole.status}`;
      return [
        {
          ...base,
          verdict: 'skipped',
          found: `whether requests of ${sizeText(body_bytes)} are let through can't be told (${why})`,
        },
      ];
    }
    const small = await announceBody(root_url, { bytes: USUAL_LIMIT_BYTES + 1, seconds });
    const who = whole.server === undefined ? 'a proxy on the way' : printableLine(whole.server).slice(0, NAME_MAX);
    const even = small.kind === 'too_large' ? `; even those above ${sizeText(USUAL_LIMIT_BYTES)} are` : '';
    const found = `requests of ${sizeText(body_bytes)} are refused by ${who} (status 413)${even}`;
    const remedy = `let it take what the gateway takes (nginx: client_max_body_size ${Math.ceil(body_bytes / USUAL_LIMIT_BYTES)}m): long sessions and pictures need it`;
    return [{ ...base, verdict: small.kind === 'too_large' ? 'failed' : 'warning', found, remedy }];
  } catch (error) {
    const found = `can't be told: ${formatNetworkError(error, seconds)}`;
    return [{ ...base, verdict: 'skipped', found }];
  }
}

const PROBES = [
  { id: 'public_url.headers', title: 'headers and bodies through the public URL', probe: probeHeaders },
  { id: 'public_url.stream', title: 'streams through the public URL', probe: probeStream },
  { id: 'public_url.large_body', title: 'a large request through the public URL', probe: probeLargeBody },
] as const;

/** What only a caller with a token is told: what proxies do to headers, bodies and streams, and whether they are believed. */
export async function* examineBehindProxy(given: PublicGiven): AsyncGenerator<Diagnosis> {
  const { host, root_url, where } = given;
  const { token, timeout_seconds, config } = host;
  if (token === undefined) {
    const found = 'what proxies do to headers, bodies and streams only a caller is told: name a token with --token-env';
    yield { id: 'public_url.headers', title: PROBES[0].title, where, verdict: 'skipped', found };
    return;
  }
  const header_prefixes = [...new Set(['vendor', config.server.profile.header_prefix])];
  const seconds = Math.max(timeout_seconds, STREAM_SECONDS);
  const asker = createAsker({ root_url, token, header_prefixes, seconds, total_seconds: TOTAL_SECONDS });
  const subject: PathSubject = { header_prefixes, ask: asker.ask };
  try {
    yield* await examineForwarded(given, subject.ask);
    for (const { id, title, probe } of PROBES) {
      const outcome = await outcomeOf(probe, subject, seconds);
      const whose = outcome.verdict === 'failed' ? await blame(given, probe, header_prefixes) : [];
      yield { id, title, where, ...outcome, details: [...(outcome.details ?? []), ...whose] };
    }
  } finally {
    asker.close();
  }
}

/** The stream alone takes two. */
const STREAM_SECONDS = 10;
const TOTAL_SECONDS = 120;

type Probe = (subject: PathSubject) => Promise<SelfCheckOutcome>;

async function outcomeOf(probe: Probe, subject: PathSubject, timeout_seconds: number): Promise<SelfCheckOutcome> {
  try {
    return await probe(subject);
  } catch (error) {
    const found = `no answer: ${formatNetworkError(error, timeout_seconds)}`;
    return { verdict: 'failed', found, remedy: 'look into the log of the proxy for this request' };
  }
}

/** Says whether the same is right at the gateway's own socket, which tells whose fault it is. */
async function blame({ host }: PublicGiven, probe: Probe, header_prefixes: readonly string[]): Promise<string[]> {
  const { direct, token } = host;
  if (direct === undefined || token === undefined) return [];
  const ask = ({ method = 'POST', path, headers = {}, body, seconds = STREAM_SECONDS }: Ask) =>
    direct(path, {
      method,
      headers: { 'content-type': 'application/json', ...headers, authorization: `Bearer ${token}` },
      ...(body !== undefined && { body }),
      seconds,
    });
  const { verdict } = await outcomeOf(probe, { header_prefixes, ask }, STREAM_SECONDS);
  return verdict === 'ok' ? ['at the gateway itself it is right: the fault is in what stands in front of it'] : [];
}

/** Whether the gateway knows whom requests through a proxy come from. */
async function examineForwarded({ host, where }: PublicGiven, ask: PathSubject['ask']): Promise<Diagnosis[]> {
  const base = { id: 'public_url.forwarded', title: 'addresses of clients behind the proxy', where };
  let answer: Awaited<ReturnType<PathSubject['ask']>>;
  try {
    answer = await ask({ method: 'POST', path: SELFCHECK_PATH, body: '{}' });
  } catch {
    return [];
  }
  const arrived = readArrived(await readAnswer(answer));
  if (arrived === undefined) {
    if (answer.status !== 401) return [];
    const found =
      'the token is refused (status 401): it is wrong, expired or revoked, or a proxy takes the Authorization header off';
    return [
      {
        ...base,
        verdict: 'failed',
        found,
        remedy:
          'make one with appscli tokens create; ask with it at the gateway itself, too, to see whether the proxy is to blame',
      },
    ];
  }
  const { for_hops, believed } = arrived.forwarded;
  const { trusted_proxies } = host.config.server;
  const ends_tls_elsewhere = host.config.server.public_url.startsWith('https:') && !arrived.tls;
  if (for_hops > 0 && !believed) {
    return [
      {
        ...base,
        verdict: 'warning',
        found: `a proxy sends X-Forwarded-For and is none of server.trusted_proxies${trusted_proxies.length === 0 ? ' (which is empty)' : ''}: every client has its address in audit records and limits`,
        remedy:
          'name its address, or the range of its addresses, in server.trusted_proxies; never one that clients can have themselves',
      },
    ];
  }
  // The gateway names no server, and requests leave here as HTTP/1.1.
  const { server, via } = answer.headers;
  const shows_itself = ends_tls_elsewhere || server !== undefined || via !== undefined || arrived.http !== '1.1';
  if (for_hops === 0 && (shows_itself || trusted_proxies.length > 0)) {
    return [
      {
        ...base,
        verdict: 'warning',
        found:
          'there is a proxy, and it sends no X-Forwarded-For: every client has its address in audit records and limits',
        remedy:
          'have it add the address of the client (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)',
      },
    ];
  }
  const found =
    for_hops === 0
      ? 'no X-Forwarded-For arrives, and nothing shows that there is a proxy'
      : `X-Forwarded-For comes from a trusted proxy, with ${for_hops === 1 ? 'one address' : `${for_hops} addresses`}`;
  return [{ ...base, verdict: 'ok', found }];
}
