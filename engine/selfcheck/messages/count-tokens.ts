import type { CheckOutcome } from '../../contract/checks.ts';
import { describeJson, errorText } from '../answer-lines.ts';
import type { Asked } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { foreignAnswer } from '../foreign-answers.ts';
import { type Answer, fieldsOf } from '../read-answer.ts';
import type { Subject } from '../subject.ts';
import { askAsClient, outcome, SHORT_QUESTION } from './ask.ts';
import { isCount } from './judge-message.ts';
import { errorProblem, isRefusedAtTheDoor } from './refusals.ts';

const PATH = '/v1/messages/count_tokens';
const LONG_TEXT = Array.from({ length: 400 }, (_, index) => `word${index % 10}`).join(' ');

const MADE_UP =
  'count with the upstream, or answer with an error such as status 501: clients rely on a count that is told';

/** Counts a short and a long text, and compares. Costs nothing. */
export async function checkTokenCounting(subject: Subject): Promise<SelfCheckOutcome> {
  const short = await askToCount(subject, SHORT_QUESTION, 'a short text');
  const refused = notCounted(short.answer);
  if (refused !== undefined) return outcome(short, refused);
  const few = countIn(short.answer);
  if (few === undefined || few === 0) return outcome(short, madeUp(short.answer, few));
  const long = await askToCount(subject, LONG_TEXT, 'a text of 400 words');
  const refused_later = notCounted(long.answer);
  if (refused_later !== undefined) return outcome(long, refused_later);
  const many = countIn(long.answer);
  if (many === undefined) return outcome(long, madeUp(long.answer, many));
  // 400 words are never less than some hundred tokens more, whatever the tokeniser.
  if (many - few < 100)
    return outcome(long, {
      verdict: 'failed',
      found: `${few} tokens for a sentence and ${many} for 400 words: the count is made up`,
      remedy: MADE_UP,
    });
  return outcome(long, { verdict: 'ok', found: `${few} tokens for a sentence, ${many} for 400 words` });
}

function askToCount(subject: Subject, content: string, note: string): Promise<Asked> {
  const json = { model: subject.model, messages: [{ role: 'user', content }] };
  return askAsClient(subject, { path: PATH, json }, note);
}

function countIn({ json }: Answer): number | undefined {
  const { input_tokens } = fieldsOf(json);
  return isCount(input_tokens) ? input_tokens : undefined;
}

function madeUp({ json }: Answer, count: number | undefined): CheckOutcome {
  const found =
    count === 0 ? '0 tokens for a sentence: the count is made up' : `no count came, but ${describeJson(json)}`;
  return { verdict: 'failed', found, remedy: MADE_UP };
}

/** What is said of an answer that is no count; `undefined` for one with status 200 and JSON. */
function notCounted(answer: Answer): CheckOutcome | undefined {
  const { status, json } = answer;
  if (status === 200 && json !== undefined && answer.fault === undefined) return undefined;
  const foreign = foreignAnswer(answer);
  if (foreign?.kind === 'text' && (status === 404 || status === 405 || status === 501))
    return {
      verdict: 'warning',
      found: `it is not served: ${foreign.what}`,
      remedy: 'say so with an error in JSON, status 404 or 501; clients estimate then',
    };
  if (isRefusedAtTheDoor(answer))
    return { verdict: 'skipped', found: `can not be told: ${errorText(json) ?? `status ${status}`}` };
  if (status === 501 && foreign === undefined && errorText(json) !== undefined) return unsupported(answer);
  const problem = errorProblem(answer);
  if (problem === undefined) return unsupported(answer);
  // Any error in JSON that says something is explicit; its form matters less than for requests to a model.
  if (foreign === undefined && status < 500 && errorText(json) !== undefined) return unsupported(answer);
  return { verdict: 'failed', ...problem };
}

function unsupported({ status, json }: Answer): CheckOutcome {
  return {
    verdict: 'ok',
    found: `not supported, and it says so with status ${status}: ${errorText(json)}; clients estimate`,
  };
}
