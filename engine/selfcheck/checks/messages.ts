import { randomUUID } from 'node:crypto';
import { errorText, shortText } from '../answer-lines.ts';
import type { SelfCheck, SelfCheckOutcome } from '../check.ts';
import { askMessages, outcome, SHORT, shortBody } from '../messages/ask.ts';
import { checkTokenCounting } from '../messages/count-tokens.ts';
import { messageProblem, missingCacheFields, otherModel } from '../messages/judge-message.ts';
import { errorProblem, isRefusedAtTheDoor, refusal } from '../messages/refusals.ts';
import { fieldsOf } from '../read-answer.ts';
import type { Subject } from '../subject.ts';
import { withoutModel } from '../without-model.ts';

/** The Messages API: whole answers, usage, errors, token counting. */
export const MESSAGES_CHECKS: readonly SelfCheck[] = [
  {
    id: 'messages.wrong_token',
    title: 'Messages with a wrong token',
    expected: 'status 401 or 403 with an error of the Messages API in JSON, and no answer of a model.',
    uses: { input: SHORT.input, output: 1 },
    skipped: withoutModel,
    run: checkWrongToken,
  },
  {
    id: 'messages.error',
    title: 'A request that is wrong',
    expected: 'status 4xx with {"type":"error","error":{"type","message"}} in JSON, so that clients can show it.',
    skipped: withoutModel,
    run: checkError,
  },
  {
    id: 'messages.unknown_model',
    title: 'A model that does not exist',
    expected: 'status 4xx with an error of the Messages API, and never the answer of another model.',
    uses: SHORT,
    run: checkUnknownModel,
  },
  {
    id: 'messages.count_tokens',
    title: 'Token counting',
    expected: 'a count that grows with the text, or an error in JSON that says it is not supported; nothing made up.',
    skipped: withoutModel,
    run: checkTokenCounting,
  },
  {
    id: 'messages.json',
    title: 'A message',
    expected: 'status 200 and a message in JSON with content, stop_reason and usage; no page, no redirect.',
    uses: SHORT,
    skipped: withoutModel,
    run: checkMessage,
  },
  {
    id: 'messages.usage',
    title: 'Usage of prompt caching',
    expected:
      'a request with cache_control is taken, and its usage says cache_creation_input_tokens and cache_read_input_tokens.',
    uses: SHORT,
    skipped: withoutModel,
    run: checkUsage,
  },
  {
    id: 'messages.unknown_field',
    title: 'Unknown beta features and fields',
    expected: 'they are passed on, or refused with an error in JSON that says so.',
    uses: SHORT,
    skipped: withoutModel,
    run: checkUnknownFields,
  },
];

async function checkWrongToken(subject: Subject): Promise<SelfCheckOutcome> {
  const body = shortBody(subject, { max_tokens: 1 });
  const asked = await askMessages(subject, body, { token: `selfcheck-${randomUUID()}` });
  const { answer } = asked;
  if (answer.status === 200 && fieldsOf(answer.json).type === 'message')
    return outcome(asked, {
      verdict: 'failed',
      // The echo upstream takes every credential; with it, the gateway may still leave the refusal to a real one.
      found:
        subject.echo === undefined
          ? 'a model answered: whoever reaches this gateway can use it without a token of its own'
          : 'the request reached an upstream: the gateway does not check the token itself',
      remedy: 'have the gateway check tokens; one that must be open belongs where nobody else reaches it',
    });
  const problem = errorProblem(answer);
  if (problem !== undefined) return outcome(asked, { verdict: 'failed', ...problem });
  if (answer.status === 401 || answer.status === 403)
    return outcome(asked, { verdict: 'ok', found: `refused with status ${answer.status}: ${errorText(answer.json)}` });
  return outcome(asked, {
    verdict: 'failed',
    found: `status ${answer.status} in place of 401 or 403: clients do not see that their token is wrong`,
    remedy: 'have the gateway check the token first, and refuse with status 401',
  });
}

async function checkError(subject: Subject): Promise<SelfCheckOutcome> {
  const body = shortBody(subject, { messages: 'this should be a list' });
  const asked = await askMessages(subject, body, { note: 'with messages that are no list' });
  const { answer } = asked;
  if (isRefusedAtTheDoor(answer))
    return outcome(asked, {
      verdict: 'skipped',
      found: `can not be told: the request was refused before anybody looked at it (${errorText(answer.json) ?? answer.status})`,
    });
  if (answer.status < 300 && answer.json !== undefined)
    return outcome(asked, {
      verdict: 'failed',
      found: `it was taken, with status ${answer.status}`,
      remedy: 'have the gateway or its upstream refuse what is no request of the Messages API, with status 400',
    });
  const problem = errorProblem(answer);
  if (problem !== undefined) return outcome(asked, { verdict: 'failed', ...problem });
  return outcome(asked, { verdict: 'ok', found: `refused with status ${answer.status}: ${errorText(answer.json)}` });
}

async function checkUnknownModel(subject: Subject): Promise<SelfCheckOutcome> {
  const model = `selfcheck-no-such-model-${randomUUID().slice(0, 8)}`;
  const asked = await askMessages(subject, shortBody({ model }), { note: 'for a model that does not exist' });
  const { answer } = asked;
  const { type, model: answered } = fieldsOf(answer.json);
  if (answer.status === 200 && type === 'message') {
    if (answered === model)
      return outcome(asked, {
        verdict: 'skipped',
        found:
          'can not be told: every name of a model is passed on, and what is behind the gateway answers to all of them',
      });
    return outcome(asked, {
      verdict: 'failed',
      found: `another model answered: ${shortText(String(answered), 80)}`,
      remedy: 'have the gateway refuse models that it does not have: nobody may get another one without knowing',
    });
  }
  const problem = errorProblem(answer);
  if (problem !== undefined) return outcome(asked, { verdict: 'failed', ...problem });
  if (answer.status === 401 || answer.status === 402 || answer.status === 429)
    return outcome(asked, { verdict: 'skipped', found: `can not be told: ${errorText(answer.json)}` });
  return outcome(asked, { verdict: 'ok', found: `refused with status ${answer.status}: ${errorText(answer.json)}` });
}

async function checkMessage(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await askMessages(subject, shortBody(subject), { note: 'a short question' });
  const { answer } = asked;
  const problem = refusal(answer) ?? messageProblem(answer);
  if (problem !== undefined) return outcome(asked, { verdict: 'failed', ...problem });
  const { model, usage, stop_reason, content } = fieldsOf(answer.json);
  const { input_tokens, output_tokens } = fieldsOf(usage);
  if (Array.isArray(content) && content.length === 0 && stop_reason === 'end_turn')
    return outcome(asked, {
      verdict: 'warning',
      found: 'the message is empty although the model ended it by itself',
      remedy: 'look at how the gateway translates answers: something of them gets lost',
    });
  const details = [otherModel(subject.model, model)].filter((line) => line !== undefined);
  const found = `a message after ${Math.round(answer.total_ms)} ms, with ${input_tokens} tokens in and ${output_tokens} out`;
  return outcome(asked, { verdict: 'ok', found, details });
}

async function checkUsage(subject: Subject): Promise<SelfCheckOutcome> {
  const system = [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }];
  const asked = await askMessages(subject, shortBody(subject, { system }), { note: 'with cache_control in system' });
  const { answer } = asked;
  const problem = refusal(answer) ?? messageProblem(answer);
  if (problem !== undefined) return outcome(asked, { verdict: 'failed', ...problem });
  const missing = missingCacheFields(fieldsOf(answer.json).usage);
  if (missing.length === 0) return outcome(asked, { verdict: 'ok', found: 'usage says how many tokens were cached' });
  return outcome(asked, {
    verdict: 'warning',
    found: `usage has no ${missing.join(' and no ')}: what prompt caching saves can not be seen`,
    remedy:
      'if the upstream tells them, have the gateway keep them; an upstream without prompt caching has none (--echo tells which)',
  });
}

const UNKNOWN = 'selfcheck-unknown-2026-01-01';

async function checkUnknownFields(subject: Subject): Promise<SelfCheckOutcome> {
  const headers = Object.fromEntries(subject.header_prefixes.map((prefix) => [`${prefix}-beta`, UNKNOWN]));
  const body = shortBody(subject, { selfcheck_unknown_field: { a: [1] } });
  const asked = await askMessages(subject, body, {
    headers,
    note: 'with an unknown beta feature and an unknown field',
  });
  const { answer } = asked;
  const is_refused = answer.status >= 400 && answer.status < 500;
  const problem = is_refused ? errorProblem(answer) : (refusal(answer) ?? messageProblem(answer));
  if (problem !== undefined) return outcome(asked, { verdict: 'failed', ...problem });
  if (isRefusedAtTheDoor(answer) && answer.status !== 403)
    return outcome(asked, { verdict: 'skipped', found: `can not be told: ${errorText(answer.json)}` });
  if (is_refused)
    return outcome(asked, { verdict: 'ok', found: `refused with status ${answer.status}: ${errorText(answer.json)}` });
  const details = ['whether they reach the upstream unchanged is told by --echo'];
  return outcome(asked, { verdict: 'ok', found: 'both are taken', details });
}
