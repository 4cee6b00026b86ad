import {
  countAt,
  flagAt,
  invalid,
  isAbsent,
  isObject,
  listAt,
  nameAt,
  noteOthers,
  numberAt,
  objectAt,
  optional,
  textAt,
} from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { Conversation, OutputFormat, TextPart, Turn } from '../translation/conversation.ts';
import type { Notes } from '../translation/notes.ts';
import type { RuleName } from '../translation/rules.ts';
import { readCache, readContent } from './read-blocks.ts';
import { readReasoning } from './read-reasoning.ts';
import { readTools } from './read-tools.ts';

const FIELDS: ReadonlySet<string> = new Set(
  [
    ['model', 'messages', 'system', 'max_tokens', 'stream', 'tools', 'tool_choice', 'thinking', 'output_config'],
    ['output_format', 'metadata', 'stop_sequences', 'temperature', 'top_p', 'top_k', 'service_tier', 'cache_control'],
    ['mcp_servers', 'thread'],
  ].flat(),
);

/** Fields that mean something to their own provider only. */
const PROVIDER_FIELDS: Readonly<Record<string, RuleName>> = {
  container: 'container',
  context_management: 'context_management',
  compaction: 'compaction',
  safeguards: 'safeguards',
  tags: 'tags',
  speed: 'speed',
  inference_geo: 'inference_geo',
  diagnostics: 'diagnostics',
  fallbacks: 'fallbacks',
  fallback_credit_token: 'fallbacks',
  billing_policy: 'billing',
  user_profile_id: 'billing',
  workspace_id: 'billing',
  betas: 'betas',
};

const KNOWN: ReadonlySet<string> = new Set([...FIELDS, ...Object.keys(PROVIDER_FIELDS)]);

/** Reads a client's request. Raises invalid_request where it breaks the protocol, not_translatable by a rule. */
export function readRequest(body: Json, notes: Notes): Conversation {
  noteFields(body, notes);
  const reasoning = readReasoning(body, notes);
  const output_format = readFormat(body);
  const user = readUser(body, notes);
  const { cache: ttl } = readCache(body, '', notes);
  const turns = listAt(body.messages, 'messages').flatMap((message, index) =>
    readTurn(message, `messages.${index}`, notes),
  );
  if (turns.at(-1)?.role === 'assistant') notes.note('begun_answer');
  return {
    model: nameAt(body.model, 'model'),
    instructions: readSystem(body.system, notes),
    turns,
    ...readTools(body, notes),
    max_output_tokens: countAt(body.max_tokens, 'max_tokens'),
    ...readSampling(body),
    ...(reasoning && { reasoning }),
    ...(output_format && { output_format }),
    ...(user && { user }),
    ...(ttl && { cache: { ttl } }),
    stream: optional(body, 'stream', flagAt) ?? false,
  };
}

function noteFields(body: Json, notes: Notes): void {
  noteThread(body, notes);
  for (const [field, rule] of Object.entries(PROVIDER_FIELDS)) {
    if (!isAbsent(body[field])) notes.note(rule);
  }
  noteOthers(body, KNOWN, notes);
}

/** Clients that are told of a lost thread send the whole conversation again, as a new one. */
function noteThread(body: Json, notes: Notes): void {
  const thread = optional(body, 'thread', objectAt);
  if (thread === undefined) return;
  if (thread.type !== 'create') notes.refuse('thread', 'thread', { details: { error_code: 'thread_not_found' } });
  notes.note('thread_create');
}

function readSystem(system: unknown, notes: Notes): readonly TextPart[] {
  if (isAbsent(system)) return [];
  return readContent(system, 'system', 'system', notes) as TextPart[];
}

const MESSAGE_FIELDS: ReadonlySet<string> = new Set(['role', 'content']);

const ROLES = { user: 'user', assistant: 'assistant', system: 'instructions' } as const;

function readTurn(value: unknown, path: string, notes: Notes): readonly Turn[] {
  const message = objectAt(value, path);
  noteOthers(message, MESSAGE_FIELDS, notes);
  const role = textAt(message.role, `${path}.role`);
  if (role !== 'user' && role !== 'assistant' && role !== 'system') {
    throw invalid(`${path}.role`, 'must be user, assistant or system');
  }
  // A message of the role system may change settings and say nothing.
  const content = message.content ?? (role === 'system' ? [] : undefined);
  const parts = readContent(content, role, `${path}.content`, notes);
  if (parts.length === 0) return role === 'user' && isText(content) ? [{ role, parts }] : [];
  // Results first, as the vocabulary has them; the upstreams of this protocol refuse any other order.
  const first_other = parts.findIndex(({ kind }) => kind !== 'tool_result');
  const in_order = first_other === -1 || !parts.slice(first_other).some(({ kind }) => kind === 'tool_result');
  if (in_order) return [{ role: ROLES[role], parts }];
  notes.note('tool_result_order');
  const results = parts.filter(({ kind }) => kind === 'tool_result');
  return [{ role: ROLES[role], parts: [...results, ...parts.filter(({ kind }) => kind !== 'tool_result')] }];
}

/** Whether content is text and nothing else, or nothing at all. */
function isText(content: unknown): boolean {
  return !Array.isArray(content) || content.every((block) => isObject(block) && block.type === 'text');
}

function readSampling(body: Json): Partial<Conversation> {
  const temperature = optional(body, 'temperature', numberAt);
  const top_p = optional(body, 'top_p', numberAt);
  const top_k = optional(body, 'top_k', countAt);
  const stop = optional(body, 'stop_sequences', listAt)?.map((text, index) => textAt(text, `stop_sequences.${index}`));
  const tier = optional(body, 'service_tier', nameAt);
  return {
    ...(temperature !== undefined && { temperature }),
    ...(top_p !== undefined && { top_p }),
    ...(top_k !== undefined && { top_k }),
    ...(stop !== undefined && stop.length > 0 && { stop }),
    // `auto` is what every protocol does when nothing is said.
    ...(tier !== undefined && tier !== 'auto' && { service_tier: tier === 'standard_only' ? 'default' : tier }),
  };
}

function readFormat(body: Json): OutputFormat | undefined {
  const config = optional(body, 'output_config', objectAt) ?? {};
  const [path, format] = isAbsent(config.format)
    ? (['output_format', optional(body, 'output_format', objectAt)] as const)
    : (['output_config.format', objectAt(config.format, 'output_config.format')] as const);
  if (format === undefined) return undefined;
  if (format.type !== 'json_schema') throw invalid(`${path}.type`, 'must be json_schema');
  // This protocol always holds the model to the schema.
  return { kind: 'json_schema', schema: objectAt(format.schema, `${path}.schema`), strict: true };
}

const METADATA_FIELDS: ReadonlySet<string> = new Set(['user_id']);

function readUser(body: Json, notes: Notes): string | undefined {
  const metadata = optional(body, 'metadata', objectAt);
  if (metadata === undefined) return undefined;
  noteOthers(metadata, METADATA_FIELDS, notes);
  return optional(metadata, 'user_id', textAt, 'metadata.');
}
