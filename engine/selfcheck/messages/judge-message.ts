import { isJson } from '../../kit/media-type.ts';
import { describeJson, shortText } from '../answer-lines.ts';
import { type Answer, fieldsOf } from '../read-answer.ts';
import type { Problem } from './refusals.ts';

const MADE_BY = 'what made this answer does not speak the Messages API: look at how the gateway translates';

/** What is wrong with a message of the Messages API, as it stands in a whole answer. */
export function messageProblem({ headers, json }: Answer): Problem | undefined {
  const message = fieldsOf(json);
  if (message.type !== 'message')
    return { found: `no message came, but ${describeJson(json)}`, remedy: remedyFor(message) };
  if (!isJson(headers['content-type']))
    return {
      found: `the content type is ${JSON.stringify(shortText(headers['content-type'] ?? '', 60))}, not application/json`,
      remedy: 'have whatever set it on the way leave content-type as it is',
    };
  const wrong = wrongFields(message);
  return wrong.length === 0 ? undefined : { found: `the message has ${wrong.join(', ')}`, remedy: MADE_BY };
}

function remedyFor(fields: Readonly<Record<string, unknown>>): string {
  if (Array.isArray(fields.choices))
    return 'that is a chat completion: have the gateway translate answers on /v1/messages';
  if (fields.type === 'error')
    return 'that is an error with status 200: have the gateway pass the status of its upstream on';
  return 'something else answers at /v1/messages: is the address right, and is /v1/ passed on?';
}

function wrongFields({ id, role, model, content, stop_reason, usage }: Readonly<Record<string, unknown>>): string[] {
  const wrong: string[] = [];
  if (typeof id !== 'string') wrong.push('no id');
  if (role !== 'assistant') wrong.push('a role that is not assistant');
  if (typeof model !== 'string') wrong.push('no model');
  if (!Array.isArray(content)) wrong.push('content that is no list');
  else if (!content.every((block) => typeof fieldsOf(block).type === 'string'))
    wrong.push('a content block without a type');
  if (typeof stop_reason !== 'string') wrong.push('no stop_reason');
  return [...wrong, ...wrongUsage(usage)];
}

/** What is wrong with the usage of a whole message or stream, as nouns. */
export function wrongUsage(usage: unknown): string[] {
  const { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } = fieldsOf(usage);
  const inputs = [input_tokens, cache_read_input_tokens, cache_creation_input_tokens];
  const wrong: string[] = [];
  if (!isCount(input_tokens)) wrong.push('no count in usage.input_tokens');
  else if (!inputs.some((count) => isCount(count) && count > 0)) wrong.push('a usage without any input tokens');
  if (!isCount(output_tokens)) wrong.push('no count in usage.output_tokens');
  return wrong;
}

/** Whether a value is a number of tokens. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}

/** Which of the fields for cached tokens a usage does not have at all; `null` is one that is there. */
export function missingCacheFields(usage: unknown): string[] {
  const names = ['cache_creation_input_tokens', 'cache_read_input_tokens'];
  return names.filter((name) => !Object.hasOwn(fieldsOf(usage), name));
}

/** Which model says that it answered, as a line, where it is not by the name that was asked for. */
export function otherModel(asked: string | undefined, answered: unknown): string | undefined {
  if (typeof answered !== 'string' || answered === asked) return undefined;
  return `${shortText(answered, 80)} answered, which is no fault where the gateway maps names of models`;
}
