import { type CheckOutcome, failed, ok, warning } from '../../../base/contract/checks.ts';
import { fieldsOf } from '../../../base/kit/json/fields.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { type Answer, errorText, shortText } from '../../selfcheck/answer.ts';
import type { Connection } from '../workstation.ts';

/** An entry of a gateway's model list. */
export interface ListedModel {
  readonly id: string;
  /** In tokens; `undefined` where the list does not say. */
  readonly context_window: number | undefined;
}

const MODELS_MAX = 5000;

/** The models in a list response of any API; `undefined` for another response. */
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

/** The model that a client requests. A suffix in brackets, such as `[1m]`, stays in the client. */
export function requestedModel({ client, model }: Connection): string | undefined {
  return client === 'messages' ? model?.replace(/\[[^\]]*\]$/, '') : model;
}

/** The entry for a model: its own, or a wildcard such as `vendor/*`. */
export function findModel(models: readonly ListedModel[], model: string): ListedModel | undefined {
  const exact = models.find(({ id }) => id === model);
  return exact ?? models.find(({ id }) => id.endsWith('*') && model.startsWith(id.slice(0, -1)));
}

/** The outcome for a model that the list lacks. `answer` is the response to `GET /v1/models/<model>`. */
export function missingModel(model: string, models: readonly ListedModel[], answer: Answer | undefined): CheckOutcome {
  const name = shortText(model, 80);
  const ids = models.map(({ id }) => shortText(id, 80));
  const alone = answer?.status === 200 ? fieldsOf(answer.json).id : undefined;
  if (alone === model) return ok(`the gateway serves ${name} to this token, although its list omits it`);
  if (ids.length === 0) {
    return failed(
      `this token may use no model, so ${name} is "not found": its token group allows none`,
      'ask your gateway administrator for a token of a group that allows models',
    );
  }
  const suggestion = didYouMean(model, ids);
  const others = `This token may use ${listed(ids).replace(/ or ([^,]*)$/, ' and $1')}. For another model ask your gateway administrator for a token of a group that allows it`;
  const remedy = suggestion === undefined ? others : `${suggestion} ${others}`;
  // Other gateways return 404 because they lack the path.
  return answer?.status === 404 && fieldsOf(fieldsOf(answer.json).error).code === 'model_not_found'
    ? failed(
        `the gateway has no model "${name}" for this token: its token group does not allow it, or the name is wrong`,
        remedy,
      )
    : warning(`the model "${name}" is not on the gateway's list for this token`, remedy);
}

/** Compares the context window that a client is configured with to the gateway's; `undefined` where one is unknown. */
export function evaluateWindow(
  { context_window: configured, fixWindow }: Connection,
  model: ListedModel,
): CheckOutcome | undefined {
  const { context_window: window } = model;
  if (window === undefined) return undefined;
  const id = shortText(model.id, 80);
  const remedy = `set the context window of the client to ${window}, and its compaction limit to ${Math.floor(window * 0.95)}`;
  if (configured === undefined)
    return fixWindow && warning(`the client has no context window for ${id}, which takes ${window} tokens`, remedy);
  if (configured <= window) return ok(`${configured} tokens, and ${id} takes ${window}`);
  return failed(
    `the client is configured for ${configured} tokens, but ${id} takes ${window}: long sessions fail before they are compacted`,
    remedy,
  );
}

/** The unverified `exp` claim of a session token, in milliseconds since the epoch; `undefined` for other tokens. */
function sessionEnd(token: string): number | undefined {
  const [, claims = ''] = /^[\w-]+\.([\w-]{2,8192})\.[\w-]+$/.exec(token) ?? [];
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'));
    return typeof exp === 'number' && exp > 0 && exp < 1e11 ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}

/** A token, and the gateway that it was sent to. */
interface TokenUse {
  readonly token: string;
  readonly root_url: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Why a gateway rejected a token: by its error code, and by the token's own expiry. */
export function refusedToken(answer: Answer, { token, root_url, now }: TokenUse): CheckOutcome {
  const details = [`the gateway says: ${errorText(answer.json) ?? 'nothing'}`];
  const { code } = fieldsOf(fieldsOf(answer.json).error);
  const login = `sign in again: appscli login --base-url ${root_url}`;
  const ends = sessionEnd(token);
  const is_session = ends !== undefined;
  const is_over = is_session && ends <= now;
  if (code === 'credential_missing') {
    return failed(
      'the token did not arrive: a proxy on the way removes the authorization header',
      'configure the proxy to forward the authorization header, and not to replace it with its own sign-in',
      { details },
    );
  }
  if (code === 'credential_revoked') {
    const remedy = is_session ? login : 'ask your gateway administrator for a new token';
    return failed('the token was revoked', remedy, { details });
  }
  if (code === 'credential_expired' || is_over) {
    const since = is_over ? `, on ${new Date(ends).toISOString()}` : '';
    const remedy = is_session ? login : 'create a new token, or ask your gateway administrator for one';
    return failed(`${is_session ? 'the sign-in' : 'the token'} has expired${since}`, remedy, { details });
  }
  if (answer.status === 403) {
    const found = 'the gateway accepts the token, but does not let it list models';
    return failed(found, 'ask your gateway administrator what the token allows', { details });
  }
  const remedy = `check that it is complete, and from this gateway instead of a model provider; ${is_session ? login : 'else create a new token, or ask for one'}`;
  return failed(`the gateway does not know the token (status ${answer.status})`, remedy, { details });
}
