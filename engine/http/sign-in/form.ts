import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../contract/services.ts';
import { isPlain, mediaType } from '../../kit/media-type.ts';
import { readAll } from '../../kit/read-all.ts';
import { OAuthError } from './oauth-error.ts';

const FORM = 'application/x-www-form-urlencoded';

/** How much of a form is read, and for how long. */
export interface FormLimits {
  readonly clock: Clock;
  readonly seconds: number;
  readonly max_bytes?: number;
}

/** The parameters of a form or a query. Raises OAuthError for a parameter that was sent twice (RFC 6749 section 3.2). */
export class Parameters {
  readonly #parameters: URLSearchParams;

  constructor(text: string) {
    this.#parameters = new URLSearchParams(text);
    const names = new Set<string>();
    for (const name of this.#parameters.keys()) {
      if (names.has(name)) {
        const shown = /^\w{1,40}$/.test(name) ? `"${name}"` : 'one of the parameters';
        throw new OAuthError('invalid_request', `The request has ${shown} more than once; send each parameter once.`);
      }
      names.add(name);
    }
  }

  /** A parameter; `undefined` when it is missing or empty, which mean the same (RFC 6749 section 3.2). */
  get(name: string): string | undefined {
    return this.#parameters.get(name) || undefined;
  }

  /** A parameter that must be there. Raises OAuthError. */
  need(name: string): string {
    const value = this.get(name);
    if (value === undefined) throw new OAuthError('invalid_request', `The request lacks the parameter "${name}".`);
    return value;
  }
}

const MAX_BYTES = 16_384;

/** The parameters of a request target's query. Raises OAuthError for repeated ones and when it is too long. */
export function readQuery(url: string): Parameters {
  const at = url.indexOf('?');
  const query = at < 0 ? '' : url.slice(at + 1);
  if (query.length > MAX_BYTES) {
    throw new OAuthError('invalid_request', `The query of the URL is longer than ${MAX_BYTES} bytes.`, { status: 414 });
  }
  return new Parameters(query);
}

/**
 * Reads a form-encoded body. Raises OAuthError for another type, for one that is too large or too slow, and for
 * repeated parameters. No body at all is an empty form.
 */
export async function readForm(req: IncomingMessage, limits: FormLimits): Promise<Parameters> {
  const { max_bytes = MAX_BYTES } = limits;
  const length = req.headers['content-length'];
  if (Number(length ?? 0) > max_bytes) throw tooLarge(max_bytes);
  const bytes = await readBytes(req, { ...limits, max_bytes });
  if (bytes.length > 0) checkType(req.headers['content-type'], req.headers['content-encoding']);
  return new Parameters(bytes.toString('utf8'));
}

function checkType(type = '', encoding?: string): void {
  if (mediaType(type) !== FORM) {
    throw new OAuthError('invalid_request', `The body must be a form: send it with "content-type: ${FORM}".`);
  }
  const [, charset = 'utf-8'] = /;\s*charset="?([^;"\s]*)/i.exec(type) ?? [];
  if (charset.toLowerCase() !== 'utf-8') {
    throw new OAuthError('invalid_request', 'The form must be in UTF-8.');
  }
  if (!isPlain(encoding)) {
    const problem = 'The form must be sent uncompressed, without a content-encoding.';
    throw new OAuthError('invalid_request', problem, { status: 415, headers: { 'accept-encoding': 'identity' } });
  }
}

function tooLarge(max_bytes: number): OAuthError {
  // Nobody reads the rest.
  const headers = { connection: 'close' };
  return new OAuthError('invalid_request', `The form is larger than ${max_bytes} bytes.`, { status: 413, headers });
}

async function readBytes(req: IncomingMessage, { clock, seconds, max_bytes }: Required<FormLimits>): Promise<Buffer> {
  const late = Promise.withResolvers<never>();
  const timer = clock.after(seconds * 1000, () => {
    const more = { status: 408, headers: { connection: 'close' } };
    late.reject(new OAuthError('invalid_request', 'The form took too long to arrive.', more));
  });
  // The request stays open: its answer is still to be sent.
  const body: AsyncIterable<Buffer> = req.iterator({ destroyOnReturn: false });
  try {
    return await Promise.race([readAll(body, max_bytes, () => tooLarge(max_bytes)), late.promise]);
  } catch (error) {
    if (error instanceof OAuthError) throw error;
    throw new OAuthError('invalid_request', 'The connection ended before the form did.', { cause: error });
  } finally {
    timer.close();
  }
}
