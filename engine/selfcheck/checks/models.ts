import { randomUUID } from 'node:crypto';
import type { CheckOutcome } from '../../contract/checks.ts';
import { isJson } from '../../kit/media-type.ts';
import { isLoopbackUrl } from '../../kit/net/addresses.ts';
import { describeJson, errorText, shortText } from '../answer-lines.ts';
import type { Asked } from '../asked.ts';
import type { SelfCheck, SelfCheckOutcome } from '../check.ts';
import { foreignAnswer, foreignError } from '../foreign-answers.ts';
import { askAsClient, outcome } from '../messages/ask.ts';
import { refusal } from '../messages/refusals.ts';
import { isOfNetwork } from '../no-answer.ts';
import { type Answer, fieldsOf } from '../read-answer.ts';
import type { Subject } from '../subject.ts';

const LIST_PATH = '/v1/models?limit=1000';

/** Clients wait so long for the list, and then go on without it. */
const PATIENCE_MS = 3000;

/** Long enough to say how slow it is. */
const SECONDS = 20;

/** The list of models, and what callers without a good credential are told. */
export const MODELS_CHECKS: readonly SelfCheck[] = [
  {
    id: 'address',
    title: 'The address',
    expected:
      'the address that Messages clients need: without /v1, https beyond this machine, no redirect to another scheme.',
    run: checkAddress,
  },
  {
    id: 'models.list',
    title: 'The list of models',
    expected: 'JSON with a list of models in "data" within 3 seconds; never a page, a redirect or a sign-in.',
    run: checkList,
  },
  {
    id: 'models.no_token',
    title: 'The list of models without a token',
    expected: 'status 401 or 403 with an error in JSON within 3 seconds; never a page, a redirect or a sign-in.',
    run: (subject) => checkRefusal(subject, null),
  },
  {
    id: 'models.wrong_token',
    title: 'The list of models with a wrong token',
    expected:
      'status 401 or 403 with an error in JSON within 3 seconds, so that clients see that their token is wrong.',
    run: (subject) => checkRefusal(subject, `selfcheck-${randomUUID()}`),
  },
];

async function checkAddress(subject: Subject): Promise<SelfCheckOutcome> {
  const root = new URL(subject.root_url);
  const asked = await askAsClient(subject, { path: '/', token: null, seconds: SECONDS }).catch((error: unknown) => {
    // What has nothing to say at its root may still be a gateway; the checks behind this one tell.
    if (isOfNetwork(error)) return undefined;
    throw error;
  });
  const target = asked === undefined ? undefined : targetOf(asked.answer, root);
  const told = judgeAddress(subject, root, target);
  return asked === undefined ? told : outcome(asked, told);
}

function judgeAddress(subject: Subject, root: URL, target: URL | undefined): CheckOutcome {
  if (target?.protocol === 'https:' && root.protocol === 'http:' && target.hostname === root.hostname)
    return {
      verdict: 'failed',
      found: 'it redirects to https, and clients follow no redirects with their token',
      remedy: `give clients ${shortText(target.origin, 120)}`,
    };
  if (/\/v1\/?$/.test(subject.given_url ?? ''))
    return {
      verdict: 'warning',
      found:
        'it was given with /v1, which was left off here: clients of chat completions need that, Messages clients must not have it',
      remedy: `give Messages clients ${subject.root_url}`,
    };
  if (root.protocol === 'http:' && !isLoopbackUrl(subject.root_url))
    return {
      verdict: 'warning',
      found: 'tokens and prompts travel without encryption',
      remedy: 'put TLS in front of the gateway and give clients an address with https',
    };
  const elsewhere = target !== undefined && target.origin !== root.origin;
  const details = elsewhere ? [`people who open it are sent to ${shortText(target.origin, 120)}`] : [];
  return { verdict: 'ok', found: shortText(subject.root_url, 120), details };
}

function targetOf({ status, headers: { location } }: Answer, root: URL): URL | undefined {
  if (status < 300 || status >= 400 || location === undefined) return undefined;
  return URL.canParse(location, root.href) ? new URL(location, root) : undefined;
}

async function checkList(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await askAsClient(subject, { path: LIST_PATH, seconds: SECONDS });
  const { answer } = asked;
  const problem = refusal(answer);
  if (problem !== undefined) {
    // Nothing is wrong with a gateway that says clearly who may not see its list.
    const is_clear = answer.status === 403 && foreignAnswer(answer) === undefined;
    return outcome(asked, { verdict: is_clear ? 'warning' : 'failed', ...problem, ...inTime(answer).details });
  }
  const { data } = fieldsOf(answer.json);
  if (!Array.isArray(data))
    return outcome(asked, {
      verdict: 'failed',
      found: `no list came, but ${describeJson(answer.json)}`,
      remedy: 'have the gateway answer {"data":[{"id":"..."}]} on /v1/models; is the address right?',
    });
  const late = tooLate(answer);
  if (late !== undefined) return outcome(asked, late);
  return outcome(asked, judgeList(data, answer, subject.model));
}

function judgeList(data: readonly unknown[], answer: Answer, model: string | undefined): CheckOutcome {
  const ids = data.map((entry) => fieldsOf(entry).id).filter((id) => typeof id === 'string' && id !== '');
  if (ids.length < data.length)
    return {
      verdict: 'failed',
      found: `${data.length - ids.length} of ${data.length} models have no id`,
      remedy: 'have the gateway name each model in "id"',
    };
  if (ids.length === 0)
    return {
      verdict: 'warning',
      found: 'the list is empty: this token may use no model',
      remedy: 'look at the token group of the token, and at the models of the gateway',
    };
  if (!isJson(answer.headers['content-type']))
    return {
      verdict: 'warning',
      found: `the list has the content type ${JSON.stringify(shortText(answer.headers['content-type'] ?? '', 60))}`,
      remedy: 'have the gateway say content-type: application/json; some clients look at it',
    };
  const details = [
    model !== undefined && !ids.includes(model) ? `${shortText(model, 80)}, which is asked here, is not in it` : '',
    fieldsOf(answer.json).has_more === true ? 'there are more, which clients do not ask for' : '',
  ];
  return {
    verdict: 'ok',
    found: `${ids.length} model${ids.length === 1 ? '' : 's'} after ${Math.round(answer.total_ms)} ms`,
    details: details.filter((line) => line !== ''),
  };
}

async function checkRefusal(subject: Subject, token: string | null): Promise<SelfCheckOutcome> {
  const asked: Asked = await askAsClient(subject, { path: LIST_PATH, token, seconds: SECONDS });
  const { answer } = asked;
  const foreign = foreignError(answer);
  if (foreign !== undefined)
    return outcome(asked, {
      verdict: 'failed',
      found: `in place of an error in JSON comes ${foreign.what}`,
      remedy: foreign.remedy,
    });
  const late = tooLate(answer);
  if (late !== undefined) return outcome(asked, late);
  const { status, json } = answer;
  if (status === 200 && Array.isArray(fieldsOf(json).data))
    return outcome(asked, {
      verdict: 'warning',
      found: `it was not refused: ${token === null ? 'anybody who reaches the gateway can read it' : 'nobody sees by it that a token is wrong'}`,
      remedy: 'if the list is public on purpose, nothing; else have the gateway check tokens on /v1/models',
    });
  if (status !== 401 && status !== 403)
    return outcome(asked, {
      verdict: 'failed',
      found: `status ${status} in place of 401 or 403: ${errorText(json) ?? describeJson(json)}`,
      remedy: 'have the gateway check the token before anything else, and refuse with status 401',
    });
  const text = errorText(json);
  if (text !== undefined) return outcome(asked, { verdict: 'ok', found: `refused with status ${status}: ${text}` });
  return outcome(asked, {
    verdict: 'warning',
    found: `refused with status ${status}, but with ${describeJson(json)}, which tells people nothing`,
    remedy: 'have the gateway say in "error" what is wrong with the token',
  });
}

function tooLate({ total_ms }: Answer): CheckOutcome | undefined {
  if (total_ms <= PATIENCE_MS) return undefined;
  return {
    verdict: 'failed',
    found: `it took ${(total_ms / 1000).toFixed(1)} seconds: clients wait 3 and then go on without a list, without a word`,
    remedy:
      'have the gateway keep the list at hand instead of asking its upstreams each time; look at proxies and DNS on the way',
  };
}

function inTime(answer: Answer): { readonly details?: readonly string[] } {
  const late = tooLate(answer);
  return late === undefined ? {} : { details: [late.found] };
}
