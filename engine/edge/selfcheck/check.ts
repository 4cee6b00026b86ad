import { type CheckOutcome, failed, ok, skipped, warning } from '../../base/contract/checks.ts';
import type { Protocol } from '../../base/contract/protocol.ts';
import { isEventStream } from '../../base/kit/media-type.ts';
import type { Exchange } from '../../base/kit/net/exchange.ts';
import type { ClientNames } from '../client-files/names.ts';
import {
  type Answer,
  cameLine,
  errorText,
  type Fields,
  fieldsOf,
  foreignAnswer,
  readAnswer,
  shortText,
} from './answer.ts';
import { APIS } from './apis.ts';
import type { Echo } from './echo/open-echo.ts';

/** Tokens that the requests of a check use together, at most. */
export interface TokensUsed {
  /** How many requests ask the model; one where it is left out. */
  readonly requests?: number;
  readonly input: number;
  readonly output: number;
}

/** What a check found, with what travelled. */
export interface SelfCheckOutcome extends CheckOutcome {
  readonly sent?: string;
  readonly came?: string;
}

/** One thing that any gateway has to do. */
export interface SelfCheck {
  /** Stays the same in all versions: lower-case words with dots between them, such as `messages.stream`. */
  readonly id: string;
  readonly title: string;
  /** What has to come back, in a sentence; it is printed where something else came. */
  readonly expected: string;
  /** What it costs; nothing where it is left out. */
  readonly uses?: TokensUsed;
  /** Why it can't be made at this gateway, such as an option that was not given; `undefined` where it can. */
  skipped?(subject: Subject): string | undefined;
  /** Makes it. An error of the network is told by whoever calls this. */
  run(subject: Subject): Promise<SelfCheckOutcome>;
}

/** A request of a check, below the address of the gateway. */
export interface Ask {
  /** With its query, such as `/v1/models?limit=1000`. */
  readonly path: string;
  readonly json?: unknown;
  /** In place of `json`: JSON that is sent as it is, byte for byte. */
  readonly body?: string;
  /** In small letters, besides the credential, the content type and, where clients of Messages ask, the version. */
  readonly headers?: Readonly<Record<string, string>>;
  /** In place of the token that is checked; `null` sends none. */
  readonly token?: string | null;
  /** In place of the time that requests have as a rule. */
  readonly seconds?: number;
}

/** What single runs of coding clients are made with. */
export interface ClientSurroundings {
  readonly env: NodeJS.ProcessEnv;
  /** What clients here may be called. */
  readonly names: readonly ClientNames[];
  /** The token that is checked; it goes into the environment of a client and nowhere else. */
  readonly token: string;
  /** For one run. */
  readonly seconds: number;
}

/** The gateway that is checked. */
export interface Subject {
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  /** The address as it was given, such as one that ends in `/v1`. */
  readonly given_url?: string;
  /** The model that is asked; `undefined` where none was named, and the gateway lists none or gives no list. */
  readonly model: string | undefined;
  /** A token whose limit is used up. */
  readonly limit_token: string | undefined;
  /** Begin the names of the headers that say version and beta features, such as `vendor` for `vendor-version`. */
  readonly header_prefixes: readonly string[];
  /** The upstream of our own that the gateway forwards to, where one was asked for. */
  readonly echo: Echo | undefined;
  /** Where coding clients are looked for; they are left out where it is missing. */
  readonly clients?: ClientSurroundings;
  /** Aborted once nothing more is to be asked; its reason is NotAsked. */
  readonly signal?: AbortSignal;
  holdsToken(text: string | Buffer): boolean;
  /** Sends one request with the token, to this gateway and nowhere else. Rejects where no head of an answer comes. */
  ask(ask: Ask): Promise<Exchange>;
}

/** Why a check that asks a model is not made. Why there is none may be a token that is refused; then another model would not help. */
export const NO_MODEL = 'no model is known to ask: put the list of models right, or name one with --model';

/** Why a check that asks a model can't be made. */
export function withoutModel({ model }: Pick<Subject, 'model'>): string | undefined {
  return model === undefined ? NO_MODEL : undefined;
}

/** POST where there is a body, GET where there is none. */
export function methodOf({ json, body }: Ask): 'GET' | 'POST' {
  return json === undefined && body === undefined ? 'GET' : 'POST';
}

/** A request that was answered. */
export interface Asked {
  readonly answer: Answer;
  /** What was sent and what came, a line each, without credentials. */
  readonly travelled: { readonly sent: string; readonly came: string };
}

/** Sends a request and reads its answer; `note` says what is special about it. Rejects where none came. */
export async function askFor(subject: Subject, ask: Ask, note?: string): Promise<Asked> {
  const answer = await readAnswer(await subject.ask(ask));
  const token_note =
    ask.token === undefined ? undefined : ask.token === null ? 'without a token' : 'with another token';
  const notes = [note, token_note].filter((word) => word !== undefined).map((word) => `, ${word}`);
  const sent = `${methodOf(ask)} ${shortText(ask.path)}${notes.join('')}`;
  return { answer, travelled: { sent, came: cameLine(answer) } };
}

/** The outcome of a check that looked for faults: some break clients, some are only noticed by strict ones. */
export function outcomeOf(
  { travelled }: Pick<Asked, 'travelled'>,
  given: {
    readonly good: string;
    readonly faults: readonly string[];
    readonly lesser?: readonly string[];
    readonly remedy: string;
    readonly details?: readonly string[];
  },
): SelfCheckOutcome {
  const { good, faults, lesser = [], remedy, details = [] } = given;
  const more = { ...travelled, ...(details.length === 0 ? {} : { details }) };
  const found = [...faults, ...lesser].join('; ');
  if (found === '') return ok(good, more);
  return (faults.length > 0 ? failed : warning)(found, remedy, more);
}

/** The outcome for an answer that is no JSON of any API; `undefined` for one that is. */
export function foreignOutcome({ answer, travelled }: Asked): SelfCheckOutcome | undefined {
  const foreign = foreignAnswer(answer);
  return foreign && failed(`in place of JSON comes ${foreign.found}`, foreign.remedy, travelled);
}

const REFUSED: Readonly<Record<number, string>> = {
  401: 'is the token whole, not expired and made by this gateway? Does a proxy on the way take "Authorization" off?',
  402: 'raise the limit of the token, or check with another one',
  403: 'may the token use this model? Its token group decides; name another model with --model',
  404: 'name a model that the token may use with --model; is the address right?',
  429: 'wait until there is room again, or check with a token that has a higher limit',
};

/** The outcome for a good request that was refused, in whatever form; `undefined` for JSON with status 200. */
export function refusedOutcome(asked: Asked): SelfCheckOutcome | undefined {
  const { answer, travelled } = asked;
  const foreign = foreignOutcome(asked);
  if (foreign !== undefined || answer.status === 200) return foreign;
  const { status } = answer;
  const upstream = 'look into the logs of the gateway: does its upstream work, and does it have a credential for it?';
  return failed(
    `the request was refused with status ${status}: ${errorText(answer.json) ?? 'without a reason'}`,
    REFUSED[status] ??
      (status >= 500 ? upstream : 'look into the logs of the gateway: the request is one that clients send'),
    travelled,
  );
}

/** A prompt with a short answer. */
export const PROMPT = 'Reply with the single word OK.';

/** Tokens of a request with it, at most, in every tokeniser; and of its answer. Some models refuse a lower bound. */
export const SHORT = { input: 60, output: 16 } as const;

/** A short request of the protocol. */
export function requestOf(
  { model }: Pick<Subject, 'model'>,
  protocol: Protocol,
  prompt = PROMPT,
  most: number = SHORT.output,
): Fields {
  return { model, ...APIS[protocol].request(prompt, most) };
}

/** The outcome where a protocol other than Messages is not served, which it need not be. `undefined` where it is, as far as the answer tells. */
export function notServed(asked: Asked, protocol: Protocol): SelfCheckOutcome | undefined {
  const { answer, travelled } = asked;
  if (protocol === 'messages' || ![404, 405, 501].includes(answer.status)) return undefined;
  const is_text = /^text\/plain\b/.test(answer.headers['content-type'] ?? '');
  if (!is_text && foreignOutcome(asked) !== undefined) return undefined;
  const { what, clients } = APIS[protocol];
  const says = errorText(answer.json);
  const is_about_model =
    fieldsOf(fieldsOf(answer.json).error).code === 'model_not_found' || /\bmodel\b/i.test(says ?? '');
  return skipped(
    `${what} are not served for this${is_about_model ? ' model' : ''}: status ${answer.status}${says === undefined ? '' : `: ${says}`}; ${clients} can't use it here`,
    travelled,
  );
}

/** The outcome where no whole stream came although one was asked for; `undefined` for one. */
export function notStreamed(asked: Asked): SelfCheckOutcome | undefined {
  const { answer, travelled } = asked;
  const { fault } = answer;
  if (answer.status === 200 && isEventStream(answer.headers['content-type'])) {
    if (fault === undefined) return undefined;
    const seconds = (answer.total_ms / 1000).toFixed(1);
    const how = fault === 'cut' ? 'broke off' : 'did not end as it should';
    return { ...foreignOutcome(asked)!, found: `the stream ${how} after ${seconds} seconds` };
  }
  return (
    refusedOutcome(asked) ??
    failed(
      'a whole answer came although a stream was asked for',
      'have the gateway stream where "stream" is true, and proxies leave content-type as it is',
      travelled,
    )
  );
}
