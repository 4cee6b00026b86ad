import { isJson } from '../../kit/media-type.ts';
import { describeJson, errorText } from '../answer-lines.ts';
import { foreignAnswer, foreignError } from '../foreign-answers.ts';
import { type Answer, fieldsOf } from '../read-answer.ts';

/** What is wrong, and what to do about it. */
export interface Problem {
  readonly found: string;
  readonly remedy: string;
}

/** Why an answer to a request that is right is none, such as an error or a page; `undefined` for status 200 with JSON. */
export function refusal(answer: Answer): Problem | undefined {
  const foreign = foreignAnswer(answer);
  if (foreign !== undefined) return { found: `in place of JSON comes ${foreign.what}`, remedy: foreign.remedy };
  if (answer.status === 200) return undefined;
  const text = errorText(answer.json) ?? describeJson(answer.json);
  return { found: `the request was refused with status ${answer.status}: ${text}`, remedy: remedyFor(answer, text) };
}

function remedyFor({ status }: Answer, text: string): string {
  if (status === 401 && /no (credential|token|api key|key|auth)|missing|not provided|required/i.test(text))
    return 'a token was sent: does a proxy on the way take "Authorization" off? If not, is the token made by this gateway?';
  if (status === 401) return 'the token is not accepted: is it whole, not expired, and made by this gateway?';
  if (status === 402 || (status === 429 && /budget|spend|credit|quota|limit.*(usd|\$)/i.test(text)))
    return 'the limit of this token is used up: wait until it resets, or use another token';
  if (status === 429) return 'too many requests for now: try again in a minute';
  if ((status === 404 || status === 400 || status === 403) && /model/i.test(text))
    return 'this token may not use the model, or there is none of that name: its token group decides; name another with --model';
  if (status === 403) return 'this token may not do that: ask whoever runs the gateway';
  if (status === 404 || status === 405)
    return 'the gateway does not serve the Messages API there: is the address right?';
  if (status >= 500) return 'the gateway or its upstream is in trouble: look into the logs of the gateway';
  return 'the gateway or its upstream refuses a request that is right: its message says why';
}

/** What is wrong with an error for clients of the Messages API: `{"type":"error","error":{"type","message"}}` with 4xx. */
export function errorProblem(answer: Answer): Problem | undefined {
  const foreign = foreignError(answer);
  if (foreign !== undefined)
    return { found: `in place of an error in JSON comes ${foreign.what}`, remedy: foreign.remedy };
  const { status, headers, json } = answer;
  if (status < 400)
    return {
      found: `no error came, but status ${status} and ${describeJson(json)}`,
      remedy: 'does something else answer in place of the gateway? Is the address right, and is /v1/ passed on?',
    };
  if (status >= 500)
    return {
      found: `status ${status} (${errorText(json) ?? describeJson(json)}): clients try again and again what can not succeed`,
      remedy:
        'have the gateway answer what is wrong with a request with status 4xx, and pass an error of its upstream on',
    };
  if (!isJson(headers['content-type']))
    return {
      found: `the error has the content type ${JSON.stringify(headers['content-type'] ?? '')}, not application/json`,
      remedy: 'have the gateway, and proxies that change errors, say content-type: application/json',
    };
  const { type, error } = fieldsOf(json);
  const { type: kind, message } = fieldsOf(error);
  if (type === 'error' && isText(kind) && isText(message)) return undefined;
  return {
    found: `the error is not in the form of the Messages API: ${describeJson(json)}`,
    remedy: 'have the gateway answer {"type":"error","error":{"type":"...","message":"..."}} on /v1/messages',
  };
}

/** Whether a request was refused for whose it is, before anybody looked at what it says. */
export function isRefusedAtTheDoor({ status, json }: Answer): boolean {
  return (status === 401 || status === 402 || status === 403 || status === 429) && json !== undefined;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}
