import type { IncomingHttpHeaders } from 'node:http';
import { type CheckOutcome, failed, ok, warning } from '../../../base/contract/checks.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { type Answer, errorText, fieldsOf, shortText } from '../../selfcheck/answer.ts';
import type { Connection } from '../desk.ts';
import { clockIn, spanText } from '../host/host.ts';

/** A model of a list. */
export interface ListedModel {
  readonly id: string;
  /** In tokens, where the gateway says so. */
  readonly context_window: number | undefined;
}

const MODELS_MAX = 5000;

/** The models of a list, in the form of whatever API; `undefined` where an answer is no list. */
export function readModels({ status, json }: Pick<Answer, 'status' | 'json'>): readonly ListedModel[] | undefined {
  const { data, models } = fieldsOf(json);
  const entries = Array.isArray(data) ? data : Array.isArray(models) ? models : undefined;
  if (status !== 200 || entries === undefined) return undefined;
  return entries.slice(0, MODELS_MAX).flatMap((entry) => {
    const { id, slug, context_window, max_input_tokens } = fieldsOf(entry);
    const name = id ?? slug;
    const window = context_window ?? max_input_tokens;
    return typeof name === 'string' ? [{ id: name, context_window: isSize(window) ? window : undefined }] : [];
  });
}

const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;

/** The model a client asks for: what follows in brackets is for the client itself. */
export function askedModel({ client, model }: Connection): string | undefined {
  return client === 'messages' ? model?.replace(/\[[^\]]*\]$/, '') : model;
}

/** Whether a list has a model, also by an entry such as `vendor/*`. */
export function findModel(models: readonly ListedModel[], model: string): ListedModel | undefined {
  const exact = models.find(({ id }) => id === model);
  return exact ?? models.find(({ id }) => id.endsWith('*') && model.startsWith(id.slice(0, -1)));
}

/** A model that a client asks for and the list does not have. `answer` is to a question for it alone. */
export function missingModel(model: string, models: readonly ListedModel[], answer: Answer | undefined): CheckOutcome {
  const name = shortText(model, 80);
  const ids = models.map(({ id }) => shortText(id, 80));
  const alone = answer?.status === 200 ? fieldsOf(answer.json).id : undefined;
  if (alone === model) return ok(`the gateway has ${name} for this token, though its list does not`);
  if (ids.length === 0) {
    return failed(
      `the gateway has no model at all for this token, so ${name} is "not found": its token group may use none`,
      'ask whoever runs the gateway for a token of a group that may use models',
    );
  }
  const meant = didYouMean(model, ids);
  const others = `This token may use ${listed(ids).replace(/ or ([^,]*)$/, ' and $1')}. For another model ask whoever runs the gateway for a token of a group that may use it`;
  const remedy = meant === undefined ? others : `${meant} ${others}`;
  // Others answer so where they have no such path.
  return answer?.status === 404 && fieldsOf(fieldsOf(answer.json).error).code === 'model_not_found'
    ? failed(
        `the gateway has no model "${name}" for this token: its token group may not use it, or the name is wrong`,
        remedy,
      )
    : warning(`the model "${name}" is not in the list that the gateway has for this token`, remedy);
}

/** What a client believes about the window of its model, against what the gateway says; `undefined` where one of both is not known. */
export function judgeWindow(
  { context_window: believed, fixWindow }: Connection,
  model: ListedModel,
): CheckOutcome | undefined {
  const { context_window: window } = model;
  if (window === undefined) return undefined;
  const id = shortText(model.id, 80);
  const remedy = `set the context window of the client to ${window}, and its compaction limit to ${Math.floor(window * 0.95)}`;
  if (believed === undefined)
    return fixWindow && warning(`the client is not told that ${id} takes ${window} tokens`, remedy);
  if (believed <= window) return ok(`${believed} tokens, and ${id} takes ${window}`);
  return failed(
    `the client believes that ${id} takes ${believed} tokens, and the gateway says ${window}: long sessions fail before they are compacted`,
    remedy,
  );
}

/** What is wrong with the text of a token, whoever it is for; never repeats it. `undefined` where it can be sent. */
export function tokenTextProblem(token: string): CheckOutcome | undefined {
  const problem = PROBLEMS.find(([is]) => is.test(token));
  return problem && failed(problem[1], problem[2]);
}

const AS_IT_IS = 'put in the token as it was given to you, and nothing else';

const PROBLEMS: readonly (readonly [RegExp, string, string])[] = [
  [/^$/, 'the token is empty', AS_IT_IS],
  [/^\s|\s$/, 'the token has a space or line break at its beginning or end', AS_IT_IS],
  [/^bearer\s/i, 'the token begins with "Bearer", which clients write themselves', AS_IT_IS],
  [/^(["']).*\1$/s, 'the token is in quotes, which are sent with it', AS_IT_IS],
  [
    /^<.*>$|^\$\{?\w+\}?$|^%\w+%$|^(?:your|my)[-_ ]?(?:api[-_ ]?)?(?:key|token)/i,
    'there is a placeholder in place of the token',
    'put in a real token: appscli login, or ask whoever runs the gateway',
  ],
  [/[^\x21-\x7e]/, 'the token holds a character that no HTTP header can carry', AS_IT_IS],
];

/** When a session token ends, by what it says of itself, in milliseconds since the epoch; `undefined` for other tokens. Nothing is verified. */
export function sessionEnd(token: string): number | undefined {
  const [, claims = ''] = /^[\w-]+\.([\w-]{2,8192})\.[\w-]+$/.exec(token) ?? [];
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'));
    return typeof exp === 'number' && exp > 0 && exp < 1e11 ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}

/** Who holds a token, and where. */
export interface TokenUse {
  readonly token: string;
  readonly root_url: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Why a gateway refuses a token, by its own words and by those of the token. */
export function refusedToken(answer: Answer, { token, root_url, now }: TokenUse): CheckOutcome {
  const details = [`the gateway says: ${errorText(answer.json) ?? 'nothing'}`];
  const { code } = fieldsOf(fieldsOf(answer.json).error);
  const login = `sign in again: appscli login --base-url ${root_url}`;
  const ends = sessionEnd(token);
  const is_session = ends !== undefined;
  const is_over = is_session && ends <= now;
  if (code === 'credential_missing') {
    return failed(
      'the token was sent and did not arrive: something on the way takes the header authorization off',
      'let the proxy in front of the gateway pass authorization on; a sign-in of its own must not take its place',
      { details },
    );
  }
  if (code === 'credential_revoked') {
    const remedy = is_session ? login : 'ask whoever runs the gateway for a new token; this one was taken back';
    return failed('the token was revoked', remedy, { details });
  }
  if (code === 'credential_expired' || is_over) {
    const since = is_over ? `, on ${new Date(ends).toISOString()}` : '';
    const remedy = is_session ? login : 'make a new token, or ask whoever runs the gateway for one';
    return failed(`${is_session ? 'the sign-in' : 'the token'} has expired${since}`, remedy, { details });
  }
  if (answer.status === 403) {
    const found = 'the gateway knows the token and does not allow it to list models';
    return failed(found, 'ask whoever runs the gateway what the token may be used for', { details });
  }
  const remedy = `is it one of this gateway, whole, and not of the provider of a model? ${is_session ? login : 'Else make a new one, or ask for one'}`;
  return failed(`the gateway does not know the token (status ${answer.status})`, remedy, { details });
}

const NOTICED_SECONDS = 60;
const HARMFUL_SECONDS = 300;

/** How far the clock of this machine is from that of the gateway; `undefined` where an answer does not say. */
export function judgeClock(headers: IncomingHttpHeaders, now: number): CheckOutcome | undefined {
  const theirs_ahead_ms = clockIn(headers, now);
  if (theirs_ahead_ms === undefined) return undefined;
  const seconds = Math.abs(theirs_ahead_ms) / 1000;
  if (seconds < NOTICED_SECONDS) return ok('the clocks of this machine and of the gateway agree');
  const found = `the clock of this machine is ${spanText(seconds)} ${theirs_ahead_ms < 0 ? 'ahead of' : 'behind'} that of the gateway, so tokens and certificates seem expired, or not good yet`;
  const remedy = 'find out which is wrong, and set it from the network';
  return seconds < HARMFUL_SECONDS ? warning(found, remedy) : failed(found, remedy);
}
