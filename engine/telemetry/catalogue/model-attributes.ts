import type { AttributeSpec } from './span-spec.ts';

/** Attributes that the conventions have for operations of models, by name. */
export const MODEL_ATTRIBUTES = {
  'gen_ai.operation.name': {
    kind: 'string',
    meaning: 'What the model was asked for',
    values: ['chat', 'count_tokens'],
  },
  'gen_ai.provider.name': {
    kind: 'string',
    meaning: 'Provider at the address of the upstream, else whose API it is asked in',
  },
  'gen_ai.request.model': { kind: 'string', meaning: 'Model that the upstream was asked for' },
  'gen_ai.request.max_tokens': { kind: 'number', meaning: 'Output bound that the client asked for' },
  'gen_ai.request.stream': { kind: 'boolean', meaning: 'Whether the client asked for a stream' },
  'gen_ai.request.choice.count': { kind: 'number', meaning: 'How many answers were asked for, where not one' },
  'gen_ai.response.model': { kind: 'string', meaning: 'Model that answered, as the upstream calls it' },
  'gen_ai.response.time_to_first_chunk': {
    kind: 'double',
    meaning: 'Seconds until the first byte of a streamed answer',
  },
  'gen_ai.conversation.id': {
    kind: 'string',
    meaning: 'Session of the client, where it sent a UUID; only with `telemetry.caller: pseudonym`',
  },
  'gen_ai.usage.input_tokens': {
    kind: 'number',
    meaning: 'Input tokens, those read from and written to the cache included',
  },
  'gen_ai.usage.output_tokens': { kind: 'number', meaning: 'Output tokens' },
  'gen_ai.usage.cache_read.input_tokens': {
    kind: 'number',
    meaning: 'Input tokens read from the prompt cache, where there are any',
  },
  'gen_ai.usage.cache_creation.input_tokens': {
    kind: 'number',
    meaning: 'Input tokens written to the prompt cache, where there are any',
    conventions: '1.41',
  },
  'gen_ai.usage.cache_write.input_tokens': {
    kind: 'number',
    meaning: 'Input tokens written to the prompt cache, where there are any',
    conventions: 'latest',
  },
  'gen_ai.token.type': { kind: 'string', meaning: 'Whether tokens are input or output', values: ['input', 'output'] },
} as const satisfies Readonly<Record<string, AttributeSpec>>;
