import type { IncomingHttpHeaders } from 'node:http';
import { failed, ok, warning } from '../../../../base/contract/checks.ts';
import { exchange } from '../../../../base/kit/net/exchange.ts';
import type { Diagnosis } from '../../desk.ts';

/** What came of one check. Texts hold no secret. */
export interface LiveOutcome {
  readonly ok: boolean;
  /** What was found, in a few words. */
  readonly what: string;
  /** What to do about a failure. */
  readonly help?: string;
  /** What is not quite as the configuration wants it, and may fail later. */
  readonly warnings?: readonly string[];
  /** What is worth knowing. */
  readonly notes?: readonly string[];
  /** How it was reached, where HTTP is spoken: directly, or through which proxy. */
  readonly way?: string;
}

/** What is wrong with it, and what to do. */
export const wrong = (what: string, help: string): LiveOutcome => ({ ok: false, what, help });

/** One thing outside the configuration, and whether it is as the configuration needs it. */
export interface LiveCheck extends LiveOutcome {
  readonly name: string;
  readonly duration_ms: number;
}

/** What came of a live check as a diagnosis; one that found only doubts is a warning. */
export function diagnosisOf(
  base: Pick<Diagnosis, 'id' | 'title' | 'where'>,
  { ok: is_ok, what, help, warnings = [], notes: more = [], way }: LiveOutcome,
): Diagnosis {
  const notes = way === undefined ? more : [...more, `reached ${way}`];
  if (!is_ok) return failed(what, help ?? 'see its own log', { ...base, details: [...warnings, ...notes] });
  const [first, ...others] = warnings;
  if (first === undefined) return ok(what, { ...base, details: notes });
  const remedy = help ?? 'compare the configuration with what it says; it may be right as it is';
  return warning(`${what}; ${first}`, remedy, { ...base, details: [...others, ...notes] });
}

/** An answer to a probe. */
export interface ProbeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** One GET request without redirects, on a connection of its own. Rejects when there is no whole answer in time. */
export async function probe(
  url: string,
  options: {
    readonly headers?: Readonly<Record<string, string>>;
    readonly timeout_seconds: number;
    readonly read_body: boolean;
    /** Certificates to trust, in PEM, in place of the usual ones. */
    readonly ca?: readonly string[];
    /** The HTTP proxy that it goes through. */
    readonly proxy?: URL | undefined;
  },
): Promise<ProbeAnswer> {
  const { headers, timeout_seconds: seconds, read_body, ca, proxy } = options;
  const asked = { headers: { accept: 'application/json', ...headers }, seconds, read_body, proxy, ...(ca && { ca }) };
  const answer = await exchange(url, asked);
  if (answer.ending === 'too_large') throw new Error('the answer is too large');
  if (answer.ending === 'too_late') throw new DOMException('the answer is not complete in time', 'TimeoutError');
  if (answer.ending === 'cut') throw Object.assign(new Error('the answer is cut'), { code: 'ECONNRESET' });
  return { status: answer.status, headers: answer.headers, body: answer.body.toString('utf8') };
}
