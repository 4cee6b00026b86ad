import type { GatewayConfig } from '../contract/config.ts';
import { type ErrorDetails, StageError } from '../contract/errors.ts';
import type { Log, ModelRefusal } from '../contract/services.ts';
import { createOnceLog } from '../kit/once-log.ts';
import { printable } from '../kit/text/printable.ts';
import { CATALOGUE_DATE } from '../money/prices/catalogue.ts';

/** Longest model identifier an error message repeats. */
const QUOTED_LENGTH_MAX = 120;

/** Why a model is none of a gateway whose gateway.yaml names no models. */
const NOT_IN_CATALOGUE = `the catalogue of prices (${CATALOGUE_DATE}) does not know what it costs`;
const NOT_LISTED = 'no upstream that serves you has it on its list of models';

const HOW_TO_SEE_MODELS = 'GET /v1/models lists the models you may use.';

/**
 * Why a caller cannot have a model: who may use it, that the upstream its request goes to does not serve it, or that nobody
 * here knows it and no setting of the upstream allows such names in this field.
 */
type Refusal =
  | ModelRefusal
  | { readonly by: 'upstream'; readonly upstream: string }
  | { readonly by: 'unknown'; readonly upstream: string; readonly field: string };

/** Why there is no such model for this caller, what can be done about it, and the names involved. */
function explain(refusal: Refusal | undefined): { why: string; remedy: string; details: ErrorDetails } {
  const unknown = 'no model of this gateway has that identifier';
  if (refusal === undefined) return { why: unknown, remedy: '', details: {} };
  if (refusal.by === 'unknown') {
    const { upstream, field } = refusal;
    const remedy = ` An administrator can add "${field}" to \`allow_fields\` of the upstream "${upstream}".`;
    return { why: unknown, remedy, details: { upstream } };
  }
  if (refusal.by === 'list') {
    return { why: NOT_LISTED, remedy: '', details: {} };
  }
  if (refusal.by === 'policy') {
    const { policy } = refusal;
    const remedy = ' An administrator can add it to the policy.';
    return { why: `the policy "${policy}" does not list it`, remedy, details: { policy } };
  }
  if (refusal.by === 'upstream') {
    const { upstream } = refusal;
    return { why: `the upstream "${upstream}" of this request does not serve it`, remedy: '', details: { upstream } };
  }
  const { token_group } = refusal;
  if (token_group === undefined) {
    const remedy = ' An administrator can add one of your groups to the members of a token group.';
    return { why: 'you are a member of no token group', remedy, details: {} };
  }
  const remedy = ' An administrator can widen the group or create a token in another one.';
  return { why: `the token group "${token_group}" may not use it`, remedy, details: { token_group } };
}

/**
 * Makes the error for a model that a request asks for and cannot have. Where gateway.yaml names none, operators are told in the
 * log what to write.
 */
export function createModelRefuser(
  config: Pick<GatewayConfig, 'from_model_lists'>,
  log: Log,
): (id: string, refusal: ModelRefusal | undefined) => StageError {
  if (!config.from_model_lists) return modelNotFound;
  const tellOnce = createOnceLog(log);
  return (id, refusal) => {
    if (refusal !== undefined && refusal.by !== 'list') return modelNotFound(id, refusal);
    const model = quotable(id);
    const why = refusal === undefined ? NOT_IN_CATALOGUE : NOT_LISTED;
    const entry = refusal === undefined ? `{ id: ${model}, pricing: { input: ..., output: ... } }` : `{ id: ${model} }`;
    const help = `write a section \`models\` with every model that is to be served, this one as ${entry}`;
    tellOnce({ model, help }, `a model was asked for and refused: ${why}`);
    const price = refusal === undefined ? ', with its price' : '';
    const remedy = `An administrator can list it in gateway.yaml under \`models\`${price}, beside the others that are served.`;
    const message = `Model not found: "${model}"; ${why}. ${HOW_TO_SEE_MODELS} ${remedy}`;
    return new StageError('model_not_found', message, { details: { model } });
  };
}

/** The error for a model that a caller cannot have; `param` is where the request names it, other than as `model`. */
export function modelNotFound(id: string, refusal: Refusal | undefined, param?: string): StageError {
  const model = quotable(id);
  const { why, remedy, details } = explain(refusal);
  const at = param === undefined ? '' : `${param}: `;
  return new StageError('model_not_found', `${at}Model not found: "${model}"; ${why}. ${HOW_TO_SEE_MODELS}${remedy}`, {
    details: { ...(param !== undefined && { param }), model, ...details },
  });
}

function quotable(id: string): string {
  return printable(id.length > QUOTED_LENGTH_MAX ? `${id.slice(0, QUOTED_LENGTH_MAX)}...` : id);
}

/** Why somebody who signed in may use no model at all, from what speaks against each of them, and who can do what about it. */
export function noModelsBecause(
  refusals: readonly (ModelRefusal | undefined)[],
  groups: readonly string[],
  { from_model_lists }: Pick<GatewayConfig, 'from_model_lists'> = {},
): string {
  if (refusals.length === 0 && from_model_lists) {
    return 'no upstream tells a list of its models; those that the catalogue of prices knows are served all the same';
  }
  if (refusals.length === 0) return 'this gateway has no models; an administrator adds them to gateway.yaml';
  const policy = refusals.find((refusal) => refusal?.by === 'policy');
  if (policy?.by === 'policy') {
    return `the policy "${policy.policy}" lists no model that your token group may use; an administrator adds one to the policy`;
  }
  const [first] = refusals;
  const group = first?.by === 'token_group' ? first.token_group : undefined;
  if (group !== undefined) {
    return `your token group "${group}" may use no model of this gateway; an administrator adds models to the group in gateway.yaml`;
  }
  const yours = groups.length === 0 ? 'no group of yours is known here' : `your groups are ${groups.join(', ')}`;
  return `you are a member of no token group (${yours}); an administrator adds one of your groups to the members of a token group in gateway.yaml`;
}
