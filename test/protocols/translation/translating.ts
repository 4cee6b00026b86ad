/**
 * A small request in each protocol, and its translation.
 * @module
 */
import type { ResponseHead } from '../../../engine/api.ts';
import { StageError } from '../../../engine/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import type { UpstreamTarget } from '../../../engine/protocols/translation/adapter.ts';
import { type TranslatedRequest, translateRequest } from '../../../engine/protocols/translation/translate.ts';

/** The name of the tool in each request: above what chat completions and Responses take. */
export const LONG_NAME = `mcp__${'tool_'.repeat(14)}`;
const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, additionalProperties: false };

/** A request with one tool in each protocol. */
const BODIES: Readonly<Record<Protocol, Record<string, unknown>>> = {
  messages: {
    model: 'coder-1',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'Hi' }],
    tools: [{ name: LONG_NAME, input_schema: PARAMETERS }],
  },
  chat: {
    model: 'coder-1',
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: 'Hi' }],
    tools: [{ type: 'function', function: { name: LONG_NAME, parameters: PARAMETERS } }],
  },
  responses: {
    model: 'coder-1',
    input: 'Hi',
    tools: [{ type: 'function', name: LONG_NAME, parameters: PARAMETERS }],
  },
};

/** Client and upstream that do not speak the same protocol. */
export const PAIRS = PROTOCOLS.flatMap((from) => PROTOCOLS.filter((to) => to !== from).map((to) => ({ from, to })));

/** Translates the small request; `more` is laid over it. */
export function translate(
  from: Protocol,
  to: Protocol,
  stream: boolean,
  more: object = {},
  target: UpstreamTarget = { max_output_tokens: 1000, thinking: 'adaptive', sampling: true },
): TranslatedRequest {
  return translateRequest({
    from,
    to,
    body: { ...BODIES[from], stream, ...more },
    upstream: to,
    upstream_model: 'upstream-1',
    target,
    request_id: '0a0b0c0d-0000-4000-8000-000000000001',
    created_at: 1_700_000_000,
  });
}

/** Whether an error is one of ours with this code. */
export const raised = (code: string) => (error: unknown) => error instanceof StageError && error.code === code;

/** The head of an upstream's response, with the headers as they are by now. */
export function headOf(
  type: string,
  status = 200,
  more: Readonly<Record<string, string>> = {},
): ResponseHead & { readonly headers: Readonly<Record<string, string>> } {
  const headers: Record<string, string> = { 'content-type': type, ...more };
  return {
    status,
    headers,
    get: (name) => headers[name],
    set(name, value) {
      headers[name] = value;
    },
    remove(name) {
      delete headers[name];
    },
    replaceAll() {},
  };
}
