import { StageError } from '../contract/errors.ts';
import type { UpstreamResponse } from '../contract/upstream-response.ts';
import { isPlain, mediaType } from '../kit/media-type.ts';
import { retryAfterSeconds, retryAfterText } from '../kit/retry-after.ts';

/**
 * What is wrong with an answer that is not the API's: a redirect, a page, nothing at all. Its status is kept when it is
 * an error, because clients decide by it whether to try again.
 * @param about `name` of the upstream; `now` in milliseconds since the epoch
 * @param options.takes_bytes whether an answer may be anything but a page, as of APIs that answer with files or with nothing
 * @param options.reason what it says, which the client is told
 */
export function refuseForeignAnswer(
  response: UpstreamResponse,
  about: { readonly name: string; readonly now: number },
  first: Buffer | undefined,
  { takes_bytes = false, reason = '' }: { readonly takes_bytes?: boolean; readonly reason?: string } = {},
): StageError | undefined {
  const { name, now } = about;
  const status = response.statusCode!;
  const found = takes_bytes && status < 300 ? notBytes(response) : foreignContent(response, first);
  if (found === undefined) return undefined;
  const expected = takes_bytes ? 'an answer of its API' : 'JSON';
  const fact = `The upstream "${name}" answered with ${found} (status ${status}) where ${expected} was expected`;
  const message = reason === '' ? `${fact}.` : `${fact}. It says: ${reason}`;
  const retry_after = retryAfterSeconds(response.headers, now);
  return new StageError('upstream_invalid', message, {
    details: { upstream: name, upstream_status: status },
    ...(status >= 400 && status <= 599 && { status }),
    headers: {
      ...(retry_after !== undefined && { 'retry-after': retryAfterText(retry_after) }),
      // A client error stays one however often it is repeated.
      ...(status >= 400 && status < 500 && status !== 429 && { 'x-should-retry': 'false' }),
    },
  });
}

/** A page is what somebody in between has to say. */
function notBytes({ statusCode, headers }: UpstreamResponse): string | undefined {
  if (statusCode! < 200) return 'a status that HTTP does not have';
  return mediaType(headers['content-type']).includes('html') ? 'an HTML page' : undefined;
}

function foreignContent({ statusCode, headers }: UpstreamResponse, first: Buffer | undefined): string | undefined {
  if (statusCode! < 200 || statusCode! > 599) return 'a status that HTTP does not have';
  if (statusCode! >= 300 && statusCode! < 400) return 'a redirect';
  if (statusCode === 204 || statusCode === 205) return 'no content';
  if (first === undefined) return 'an empty body';
  const type = mediaType(headers['content-type']);
  const readable = isPlain(headers['content-encoding']);
  if (type.includes('event-stream')) return undefined;
  if (type.includes('json')) return readable && statusCode! < 300 ? contentOf(first) : undefined;
  const json = readable ? /^\s*[{[]/.test(first.toString('latin1', 0, 64)) : type === '';
  if (json) return undefined;
  return type.includes('html') ? 'an HTML page' : type === 'text/plain' ? 'plain text' : 'something else';
}

/** What is called JSON and begins as no object or list can; blanks before it are sent by some while they compute. */
function contentOf(first: Buffer): string | undefined {
  const begin = /\S/.exec(first.toString('latin1', 0, 64))?.[0];
  // Some begin with a byte order mark.
  if (begin === undefined || begin === '{' || begin === '[' || begin === '\u00ef') return undefined;
  return begin === '<' ? 'an HTML page' : 'something else';
}
