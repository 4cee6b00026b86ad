import { printable } from '../diagnostics/printable.ts';
import { type ErrorDetails, StageError } from '../errors.ts';
import type { ModelRefusal } from '../stage-services.ts';

/** Longest model identifier an error message repeats. */
const QUOTED_LENGTH_MAX = 120;

const HOW_TO_SEE_MODELS = 'GET /v1/models lists the models you may use.';

/** Why a caller cannot have a model: who may use it, or that the upstream its request goes to does not serve it. */
type Refusal = ModelRefusal | { readonly by: 'upstream'; readonly upstream: string };

/** Why there is no such model for this caller, what can be done about it, and the names involved. */
function explain(refusal: Refusal | undefined): { why: string; remedy: string; details: ErrorDetails } {
  if (refusal === undefined) return { why: 'no model of this gateway has that identifier', remedy: '', details: {} };
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

/** The error for a model that a caller cannot have; `param` is where the request names it, other than as `model`. */
export function modelNotFound(id: string, refusal: Refusal | undefined, param?: string): StageError {
  const model = printable(id.length > QUOTED_LENGTH_MAX ? `${id.slice(0, QUOTED_LENGTH_MAX)}...` : id);
  const { why, remedy, details } = explain(refusal);
  const place = param === undefined ? '' : `${param}: `;
  return new StageError(
    'model_not_found',
    `${place}Model not found: "${model}"; ${why}. ${HOW_TO_SEE_MODELS}${remedy}`,
    {
      details: { ...(param !== undefined && { param }), model, ...details },
    },
  );
}
