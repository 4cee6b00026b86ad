/** Bodies that came to the path of another API, as far as that is certain. */
import type { StageError } from '../../contract/errors.ts';
import type { Protocol } from '../../contract/protocol.ts';
import { definitionOf } from '../definitions.ts';
import { invalid, isAbsent } from '../read-json.ts';
import { type Fields, fieldsOf } from './fields.ts';

const APIS: Readonly<Record<Protocol, string>> = {
  messages: 'the Messages API',
  chat: 'chat completions',
  responses: 'the Responses API',
};

/** Fields that chat completions have, and no other API. */
const OF_CHAT = ['stream_options', 'response_format', 'max_completion_tokens'] as const;

/** The API that a body is written for, and the field that shows it. */
type Meant = readonly [api: Protocol, field: string] | undefined;

/** What shows at the path of each API that a body is written for another. */
const MEANT: Readonly<Record<Protocol, (body: Fields) => Meant>> = {
  messages(body) {
    if (isAbsent(body.messages)) return isAbsent(body.input) ? undefined : ['responses', 'input'];
    // Messages require it, and clients of chat completions have stopped sending it.
    return isAbsent(body.max_tokens) ? chatField(body) : undefined;
  },
  chat({ messages, input, system, max_tokens }) {
    if (isAbsent(messages)) return isAbsent(input) ? undefined : ['responses', 'input'];
    return isAbsent(system) || isAbsent(max_tokens) ? undefined : ['messages', 'system'];
  },
  responses({ messages, input, prompt, system }) {
    if (isAbsent(messages) || !isAbsent(input) || !isAbsent(prompt)) return undefined;
    return isAbsent(system) ? ['chat', 'messages'] : ['messages', 'system'];
  },
};

function chatField(body: Fields): Meant {
  const field = OF_CHAT.find((name) => !isAbsent(body[name]));
  if (field !== undefined) return ['chat', field];
  const [tool] = Array.isArray(body.tools) ? body.tools : [];
  return isAbsent(fieldsOf(tool).function) ? undefined : ['chat', 'tools[0].function'];
}

/**
 * The error for a body that only another API takes, with the path of that; `undefined` for one that may be meant for this one.
 * @param base_path the path of the public URL, in front of those of the APIs
 */
export function otherApi(protocol: string, body: Fields, base_path: string): StageError | undefined {
  const meant = Object.hasOwn(MEANT, protocol) ? MEANT[protocol as Protocol](body) : undefined;
  if (meant === undefined) return undefined;
  const [api, field] = meant;
  const path = `${base_path}${definitionOf(api).path}`;
  return invalid(
    field,
    `is of ${APIS[api]}, which this gateway takes at POST ${path}; this path takes ${APIS[protocol as Protocol]}`,
  );
}
