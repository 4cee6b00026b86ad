import { type CheckOutcome, type CheckResult, failed, ok, skipped, warning } from '../../base/contract/checks.ts';
import { MAIN_PROTOCOL, type Protocol } from '../../base/contract/protocol.ts';
import { type Fields, fieldsOf } from '../../base/kit/json/fields.ts';
import { isEventStream } from '../../base/kit/media-type.ts';
import type { Exchange } from '../../base/kit/net/exchange.ts';
import { DEFINITIONS } from '../../domain/protocols/definitions.ts';
import type { ClientNames } from '../client-files/names.ts';
import { type Answer, cameLine, errorText, nonApiResponse, readAnswer, shortText } from './answer.ts';
import type { Echo } from './echo.ts';

export interface TokensUsed {
  readonly requests?: number;
  readonly input: number;
  readonly output: number;
}

/** The outcome of a check, with its request and response. */
export type SelfCheckOutcome = CheckOutcome & Pick<CheckResult, 'sent' | 'came'>;

/** One conformance check of a gateway. */
export interface SelfCheck extends Pick<CheckResult, 'id' | 'title'> {
  readonly expected: string;
  readonly uses?: TokensUsed;
  /** Why the check cannot run, such as a missing option; `undefined` if it can. */
  skipped?(subject: Subject): string | undefined;
  run(subject: Subject): Promise<SelfCheckOutcome>;
}

export interface CheckRequest {
  /** With its query, such as `/v1/models?limit=1000`. */
  readonly path: string;
  readonly json?: unknown;
  /** Instead of `json`: JSON to send byte for byte. */
  readonly body?: string;
  /** Lower-case names; added to the credential, the content type and, for Messages, the version. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Replaces the token under test; `null` sends none. */
  readonly token?: string | null;
  readonly seconds?: number;
}

export interface ClientEnvironment {
  readonly env: NodeJS.ProcessEnv;
  /** The names that clients may have here. */
  readonly names: readonly ClientNames[];
  readonly token: string;
  readonly seconds: number;
}

/** The gateway under test. */
export interface Subject {
  readonly root_url: string;
  /** The address as the user typed it, such as one that ends in `/v1`. */
  readonly given_url?: string;
  /** The model to request; `undefined` if none was named and the gateway lists none. */
  readonly model: string | undefined;
  readonly limit_token: string | undefined;
  /** Prefixes of version and beta headers, such as `vendor` for `vendor-version`. */
  readonly header_prefixes: readonly string[];
  readonly echo: Echo | undefined;
  /** Environment for client runs; absent to skip them. */
  readonly clients?: ClientEnvironment;
  /** Aborted when the checks stop; its reason is ChecksStopped. */
  readonly signal?: AbortSignal;
  holdsToken(text: string | Buffer): boolean;
  /** Sends one request with the token to this gateway. Rejects without response headers. */
  ask(ask: CheckRequest): Promise<Exchange>;
}

/** The list of models, as clients request it. */
export const MODELS_PATH = '/v1/models?limit=1000';

/** Why checks without a model are skipped. The cause may be a rejected token, which another model would not fix. */
export const NO_MODEL = 'no model available: fix the model list, or name a model with --model';

export function withoutModel({ model }: Pick<Subject, 'model'>): string | undefined {
  return model === undefined ? NO_MODEL : undefined;
}

export function methodOf({ json, body }: CheckRequest): 'GET' | 'POST' {
  return json === undefined && body === undefined ? 'GET' : 'POST';
}

export interface Reply {
  readonly answer: Answer;
  readonly travelled: { readonly sent: string; readonly came: string };
}

/** Sends a request and reads its response; `note` describes the request. Rejects without a response. */
export async function sendRequest(subject: Pick<Subject, 'ask'>, ask: CheckRequest, note?: string): Promise<Reply> {
  const answer = await readAnswer(await subject.ask(ask));
  const token_note =
    ask.token === undefined ? undefined : ask.token === null ? 'without a token' : 'with another token';
  const notes = [note, token_note].filter((word) => word !== undefined).map((word) => `, ${word}`);
  const sent = `${methodOf(ask)} ${shortText(ask.path)}${notes.join('')}`;
  return { answer, travelled: { sent, came: cameLine(answer) } };
}

/** The outcome of a check by its faults: `faults` break clients, `lesser` ones only strict clients notice. */
export function outcomeOf(
  { travelled }: Pick<Reply, 'travelled'>,
  result: {
    readonly good: string;
    readonly faults: readonly string[];
    readonly lesser?: readonly string[];
    readonly remedy: string;
    readonly details?: readonly string[];
  },
): SelfCheckOutcome {
  const { good, faults, lesser = [], remedy, details = [] } = result;
  const more = { ...travelled, ...(details.length === 0 ? {} : { details }) };
  const found = [...faults, ...lesser].join('; ');
  if (found === '') return ok(good, more);
  return (faults.length > 0 ? failed : warning)(found, remedy, more);
}

export function nonApiOutcome({ answer, travelled }: Reply): SelfCheckOutcome | undefined {
  const foreign = nonApiResponse(answer);
  return foreign && failed(`expected JSON, got ${foreign.found}`, foreign.remedy, travelled);
}

const REFUSED: Readonly<Record<number, string>> = {
  401: 'check that the token is complete, valid and from this gateway, and that no proxy removes "Authorization"',
  402: 'raise the limit of the token, or use another one',
  403: "check that the token's group allows this model, or name another with --model",
  404: 'check the address, and name a model that the token may use with --model',
  429: 'wait until the limit resets, or use a token with a higher limit',
};

/** The outcome of a valid request that was rejected in any form; `undefined` for JSON with status 200. */
export function refusedOutcome(reply: Reply): SelfCheckOutcome | undefined {
  const { answer, travelled } = reply;
  const foreign = nonApiOutcome(reply);
  if (foreign !== undefined || answer.status === 200) return foreign;
  const { status } = answer;
  const upstream = "see the logs of the gateway: check its upstream and the upstream's credential";
  return failed(
    `rejected with status ${status}: ${errorText(answer.json) ?? 'no reason given'}`,
    REFUSED[status] ?? (status >= 500 ? upstream : 'see the logs of the gateway: clients send such requests'),
    travelled,
  );
}

/** A prompt with a short response. */
export const PROMPT = 'Reply with the single word OK.';

/** Most tokens of this prompt in any tokeniser, and of its response. Some models reject a lower limit. */
export const SHORT = { input: 60, output: 16 } as const;

/** A short request of the protocol. */
export function requestOf(
  { model }: Pick<Subject, 'model'>,
  protocol: Protocol,
  prompt = PROMPT,
  most: number = SHORT.output,
): Fields {
  return { model, ...DEFINITIONS[protocol].probe.request(prompt, most) };
}

/** The outcome if the gateway does not serve an optional protocol (all but the main one); `undefined` if it seems to. */
export function notServed(reply: Reply, protocol: Protocol): SelfCheckOutcome | undefined {
  const { answer, travelled } = reply;
  if (protocol === MAIN_PROTOCOL || ![404, 405, 501].includes(answer.status)) return undefined;
  const is_text = /^text\/plain\b/.test(answer.headers['content-type'] ?? '');
  if (!is_text && nonApiOutcome(reply) !== undefined) return undefined;
  const { name, probe } = DEFINITIONS[protocol];
  const says = errorText(answer.json);
  const is_about_model =
    fieldsOf(fieldsOf(answer.json).error).code === 'model_not_found' || /\bmodel\b/i.test(says ?? '');
  return skipped(
    `${name} not served${is_about_model ? ' for this model' : ''}: status ${answer.status}${says === undefined ? '' : `: ${says}`}; ${probe.clients} cannot use this gateway`,
    travelled,
  );
}

/** The outcome of a requested stream that is missing or incomplete; `undefined` for a complete stream. */
export function notStreamed(reply: Reply): SelfCheckOutcome | undefined {
  const { answer, travelled } = reply;
  const { fault } = answer;
  if (answer.status === 200 && isEventStream(answer.headers['content-type'])) {
    if (fault === undefined) return undefined;
    const seconds = (answer.total_ms / 1000).toFixed(1);
    const how = fault === 'cut' ? 'broke off' : 'did not end properly';
    return { ...nonApiOutcome(reply)!, found: `the stream ${how} after ${seconds} seconds` };
  }
  return (
    refusedOutcome(reply) ??
    failed(
      'expected a stream, got a complete response',
      'make the gateway stream if "stream" is true, and proxies keep the content-type',
      travelled,
    )
  );
}
