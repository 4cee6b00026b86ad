import { defineStage, StageError } from '../engine/api.ts';

/** Characters per token of ordinary text and JSON, for the likely size. */
const BYTES_PER_TOKEN = 4;

/** What a provider adds to a request with tools, in tokens; it is not in the body. */
const TOOL_PREAMBLE_TOKENS = 1000;

/** Most tokens one image can stand for, whatever its size in the body. */
const IMAGE_TOKENS = 5000;

/** Most tokens a document, a remote reference or a tool run by the provider can stand for; the context window caps it. */
const REFERENCE_TOKENS = 1_000_000;

/** No response can use a tool more often, whatever a request allows. */
const TOOL_USES_MAX = 10_000;

/** The type of a tool that the provider runs ends with the date of its version: `web_search_20250305`. */
const VERSIONED_TOOL = /^([a-z][a-z0-9_]{0,63})_\d{8}$/;

/** Keys that decide routing and money: two parsers must not be able to disagree on them. */
const DECISIVE_KEYS = ['model', 'max_tokens', 'stream'] as const;

const NO_TOOLS = Object.freeze({});

interface Fields {
  readonly model: string;
  readonly max_tokens: number | undefined;
  readonly stream: boolean;
  readonly tools: readonly unknown[];
  /** Whether it names servers whose tools the provider runs. */
  readonly names_servers: boolean;
  readonly messages: readonly unknown[];
}

function refuse(param: string, message: string): StageError {
  return new StageError('invalid_request', `${param}: ${message}`, { details: { param } });
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`;
}

function listOf(body: Record<string, unknown>, key: string): readonly unknown[] {
  const value = body[key];
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw refuse(key, `must be an array, not ${kindOf(value)}`);
  return value;
}

function readFields(json: unknown): Fields {
  if (json === null || typeof json !== 'object' || Array.isArray(json)) {
    throw new StageError('invalid_request', `The request body must be a JSON object, not ${kindOf(json)}.`);
  }
  const body = json as Record<string, unknown>;
  const { model, max_tokens, stream, mcp_servers } = body;
  if (model === undefined) throw refuse('model', 'is required; GET /v1/models lists what there is');
  if (typeof model !== 'string' || model === '')
    throw refuse('model', `must be a non-empty string, not ${kindOf(model)}`);
  if (max_tokens !== undefined && (!Number.isSafeInteger(max_tokens) || (max_tokens as number) < 0)) {
    throw refuse('max_tokens', 'must be a whole number, 0 or more');
  }
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean') {
    throw refuse('stream', `must be true or false, not ${kindOf(stream)}`);
  }
  return {
    model,
    max_tokens: max_tokens as number | undefined,
    stream: stream === true,
    tools: listOf(body, 'tools'),
    names_servers: Array.isArray(mcp_servers) ? mcp_servers.length > 0 : mcp_servers != null,
    messages: listOf(body, 'messages'),
  };
}

/** JSON may spell any character as an escape; a caller who spells plain letters so is taken to ask for the dearest. */
function spellsLettersAsEscapes(bytes: Buffer): boolean {
  return bytes.includes('\\u00') && /\\u00[3-7]/.test(bytes.toString('latin1'));
}

function cacheLifetime(bytes: Buffer): 'none' | '5m' | '1h' {
  const asked = !bytes.includes('cache_control') ? 'none' : bytes.includes('"1h"') ? '1h' : '5m';
  return asked !== '1h' && spellsLettersAsEscapes(bytes) ? '1h' : asked;
}

/** Tokens that content blocks may stand for beyond the bytes they take. Not recursive: a body may nest very deep. */
function attachedTokens(messages: readonly unknown[]): number {
  const contents = messages.map((message) => (message as { content?: unknown } | null)?.content);
  let tokens = 0;
  while (contents.length > 0) {
    const content = contents.pop();
    if (!Array.isArray(content)) continue;
    for (const block of content) {
      switch (block?.type) {
        case 'text':
        case 'tool_use':
        case 'server_tool_use':
        case 'thinking':
        case 'redacted_thinking':
        case undefined:
          break;
        case 'image':
          tokens += block.source?.type === 'base64' ? IMAGE_TOKENS : REFERENCE_TOKENS;
          break;
        case 'tool_result':
          contents.push(block.content);
          break;
        default:
          tokens += REFERENCE_TOKENS;
      }
    }
  }
  return tokens;
}

function toolTokens({ tools, names_servers }: Fields): number {
  if (tools.length === 0 && !names_servers) return 0;
  const run_by_provider =
    names_servers || tools.some((tool) => ((tool as { type?: string } | null)?.type ?? 'custom') !== 'custom');
  return TOOL_PREAMBLE_TOKENS + (run_by_provider ? REFERENCE_TOKENS : 0);
}

/** The most uses the request allows of tools that the provider runs and may charge for, by name, where it bounds them. */
function serverToolUses(tools: readonly unknown[]): Readonly<Record<string, number>> {
  let most: Record<string, number> | undefined;
  for (const tool of tools) {
    const { type, max_uses } = (tool ?? {}) as { type?: unknown; max_uses?: unknown };
    const name = typeof type === 'string' ? VERSIONED_TOOL.exec(type)?.[1] : undefined;
    if (name === undefined || !Number.isInteger(max_uses) || (max_uses as number) <= 0) continue;
    most ??= Object.create(null) as Record<string, number>;
    most[name] = Math.min(TOOL_USES_MAX, (most[name] ?? 0) + (max_uses as number));
  }
  return most ?? NO_TOOLS;
}

/**
 * An upper bound of the input in tokens: no tokenizer makes more tokens than there are bytes, except for what the body
 * only refers to and what the provider adds.
 */
function inputTokensMax(bytes: Buffer, fields: Fields): number {
  return bytes.length + toolTokens(fields) + attachedTokens(fields.messages);
}

export default defineStage<
  Record<never, never>,
  never,
  never,
  | 'request.body_bytes'
  | 'request.model'
  | 'request.max_tokens'
  | 'request.stream'
  | 'request.tool_count'
  | 'request.server_tool_uses'
  | 'request.message_count'
  | 'request.input_tokens_estimate'
  | 'request.input_tokens_max'
  | 'request.cache.ttl'
>({
  name: 'read-body',
  version: 1,
  summary: 'Reads the request body into memory and notes what routing and spend rules may know about it.',
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: read-body' }],
  writes: [
    'request.body_bytes',
    'request.model',
    'request.max_tokens',
    'request.stream',
    'request.tool_count',
    'request.server_tool_uses',
    'request.message_count',
    'request.input_tokens_estimate',
    'request.input_tokens_max',
    'request.cache.ttl',
  ],
  raises: [
    'invalid_request',
    'invalid_json',
    'invalid_encoding',
    'body_too_large',
    'request_timeout',
    'overloaded',
    'bad_http',
  ],
  needs: ['raw-body'],
  create: () => ({
    async request(ctx) {
      const body = await ctx.readBody();
      const fields = readFields(body.json());
      const twice = DECISIVE_KEYS[body.countKeys(DECISIVE_KEYS).findIndex((count) => count > 1)];
      if (twice !== undefined) throw refuse(twice, 'occurs more than once in the body; send it once');
      const { bytes } = body;
      ctx.set('request.body_bytes', bytes.length);
      ctx.set('request.model', fields.model);
      if (fields.max_tokens !== undefined) ctx.set('request.max_tokens', fields.max_tokens);
      ctx.set('request.stream', fields.stream);
      ctx.set('request.tool_count', fields.tools.length);
      ctx.set('request.server_tool_uses', serverToolUses(fields.tools));
      ctx.set('request.message_count', fields.messages.length);
      ctx.set('request.input_tokens_estimate', Math.ceil(bytes.length / BYTES_PER_TOKEN));
      ctx.set('request.input_tokens_max', inputTokensMax(bytes, fields));
      ctx.set('request.cache.ttl', cacheLifetime(bytes));
      return undefined;
    },
  }),
});
