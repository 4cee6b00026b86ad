import type { Protocol } from '../../contract/protocol.ts';
import type { Relay } from '../../contract/stage.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import { tryParseBounded } from '../../kit/json/bounded.ts';
import { definitionOf } from '../../protocols/definitions.ts';
import { type FailedRequest, overflowAnswer, RETRY_HEADERS, readProblem } from '../../protocols/errors.ts';
import { isObject } from '../../protocols/read-json.ts';
import { DESCRIBING } from '../../protocols/translation/translate.ts';

/** An answer of which all is there. */
export type WholeAnswer = Required<Pick<Relay, 'response' | 'begun'>>;

/** Headers that do not hold of other bytes. */
const OF_BYTES: ReadonlySet<string> = new Set([
  ...DESCRIBING,
  ...RETRY_HEADERS,
  'content-encoding',
  'content-length',
  'content-type',
  'transfer-encoding',
]);

const nothing = () => undefined;

/** An answer with the headers of another that say nothing of its bytes. */
function inPlaceOf(
  { rawHeaders }: UpstreamResponse,
  { status, content_type, body }: ReturnType<typeof overflowAnswer>,
): WholeAnswer {
  const bytes = Buffer.from(body);
  const own = { 'content-type': content_type, 'content-length': String(bytes.length) };
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (!OF_BYTES.has(rawHeaders[i]!.toLowerCase())) kept.push(rawHeaders[i]!, rawHeaders[i + 1]!);
  const response: UpstreamResponse = {
    statusCode: status,
    headers: own,
    rawHeaders: [...kept, ...Object.entries(own).flat()],
    complete: true,
    readableEnded: true,
    destroyed: false,
    on: nothing,
    off: nothing,
    pause: nothing,
    resume: nothing,
    destroy: nothing,
  };
  return { response, begun: [bytes] };
}

/** An error in the upstream's words as a response of its own, whatever it came in: translation reads it there. */
export function asErrorResponse(response: UpstreamResponse, text: string): WholeAnswer {
  return inPlaceOf(response, { status: 400, content_type: 'application/json', body: text });
}

/**
 * Says to clients of the upstream's own protocol that the conversation is too long, where the upstream says it in words they do
 * not know: they would never compact it. `undefined` where they know them, and get the upstream's bytes.
 */
export function rewordOverflow(
  protocol: Protocol,
  text: string,
  { response, ...how }: FailedRequest & { readonly response: UpstreamResponse; readonly stream: boolean },
): WholeAnswer | undefined {
  const { errors } = definitionOf(protocol);
  const { statusCode: status = 0 } = response;
  const said = tryParseBounded(text);
  if (errors.knowsOverflow(inPlace(said))) return undefined;
  const problem = readProblem(status < 400 ? undefined : status, text);
  return inPlaceOf(response, overflowAnswer(errors, problem, { ...how, said }));
}

/** What stands where clients read it: words of others that are told somewhere else they do not see. */
function inPlace(said: unknown): { readonly message: string; readonly code?: string } {
  if (!isObject(said)) return { message: '' };
  const found = isObject(said.response) ? said.response.error : said.error;
  const { message, code } = isObject(found) ? found : {};
  return { message: typeof message === 'string' ? message : '', ...(typeof code === 'string' && { code }) };
}
