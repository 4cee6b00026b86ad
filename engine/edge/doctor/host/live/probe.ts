import type { IncomingHttpHeaders } from 'node:http';
import { failed, ok, warning } from '../../../../base/contract/checks.ts';
import { exchange } from '../../../../base/kit/net/exchange.ts';
import type { Diagnosis } from '../../workstation.ts';

/** Result of one live check. Contains no secrets. */
export interface LiveOutcome {
  readonly ok: boolean;
  /** The finding, in a few words. */
  readonly what: string;
  /** What to do about a failure. */
  readonly help?: string;
  /** Deviations from the configuration that may fail later. */
  readonly warnings?: readonly string[];
  /** Notes that need no action. */
  readonly notes?: readonly string[];
  /** The network path over HTTP: direct, or through which proxy. */
  readonly way?: string;
}

/** The outcome of a failed check, with its remedy. */
export const wrong = (what: string, help: string): LiveOutcome => ({ ok: false, what, help });

/** A live check of one service that the configuration names. */
export interface LiveCheck extends LiveOutcome {
  readonly name: string;
  readonly duration_ms: number;
}

/** A live check as a diagnosis; one with warnings only becomes a warning. */
export function diagnosisOf(
  base: Pick<Diagnosis, 'id' | 'title' | 'where'>,
  { ok: is_ok, what, help, warnings = [], notes: more = [], way }: LiveOutcome,
): Diagnosis {
  const notes = way === undefined ? more : [...more, `reached ${way}`];
  if (!is_ok) return failed(what, help ?? 'see its log', { ...base, details: [...warnings, ...notes] });
  const [first, ...others] = warnings;
  if (first === undefined) return ok(what, { ...base, details: notes });
  const remedy = help ?? 'compare the configuration; it may be right';
  return warning(`${what}; ${first}`, remedy, { ...base, details: [...others, ...notes] });
}

/** The response to a probe. */
export interface ProbeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Sends one GET request on its own connection, without following redirects. Rejects without a complete response in time. */
export async function probe(
  url: string,
  options: {
    readonly headers?: Readonly<Record<string, string>>;
    readonly timeout_seconds: number;
    readonly read_body: boolean;
    /** CA certificates in PEM, instead of the default ones. */
    readonly ca?: readonly string[];
    /** The HTTP proxy to use. */
    readonly proxy?: URL | undefined;
  },
): Promise<ProbeAnswer> {
  const { headers, timeout_seconds: seconds, read_body, ca, proxy } = options;
  const request = { headers: { accept: 'application/json', ...headers }, seconds, read_body, proxy, ...(ca && { ca }) };
  const answer = await exchange(url, request);
  if (answer.ending === 'too_large') throw new Error('the response is too large');
  if (answer.ending === 'too_late') throw new DOMException('the response is not complete in time', 'TimeoutError');
  if (answer.ending === 'cut') throw Object.assign(new Error('the response was cut off'), { code: 'ECONNRESET' });
  return { status: answer.status, headers: answer.headers, body: answer.body.toString('utf8') };
}
