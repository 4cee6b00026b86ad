import { SELFCHECK_PATH } from '../../contract/selfcheck-endpoint.ts';
import { errorText } from '../answer-lines.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { foreignAnswer } from '../foreign-answers.ts';
import { type Answer, fieldsOf } from '../read-answer.ts';

/** Whether a gateway of ours says that a request came without a credential, although one was sent. */
export function lostItsCredential({ json }: Pick<Answer, 'json'>): boolean {
  return fieldsOf(fieldsOf(json).error).code === 'credential_missing';
}

/** Why nothing is known of the way: most gateways do not have the path. What else is wrong with such an answer, other checks tell. */
export function notThere(answer: Answer): SelfCheckOutcome {
  const { status, json } = answer;
  const foreign = foreignAnswer(answer);
  if (foreign !== undefined)
    return { verdict: 'skipped', found: `in place of what a gateway of this program tells comes ${foreign.what}` };
  const said = errorText(json);
  const why = `(status ${status}${said === undefined ? '' : `, ${said}`})`;
  if (status === 401 || status === 403)
    return { verdict: 'skipped', found: `only callers are told, and the token is refused ${why}` };
  if (status === 429 || status === 503)
    return { verdict: 'skipped', found: `the gateway has no room for it now ${why}` };
  return {
    verdict: 'skipped',
    found: `only gateways of this program tell, and something else answers POST ${SELFCHECK_PATH} ${why}`,
  };
}
