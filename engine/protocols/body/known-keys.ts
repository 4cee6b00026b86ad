import type { KeyNames, KnownKey } from '../../contract/key-names.ts';
import { KeyTable } from '../../kit/json/key-names.ts';
import { DECISIVE_FIELDS } from './decisive-fields.ts';

/*
 * Keys that decide over models, money or accounts, in any of the protocols. Nothing may make two parsers disagree on one of them:
 * neither a second one in the same object nor another spelling.
 */

/** Beside the fields of the table, what bounds and meters are read from. */
const DECISIVE_AT_THE_TOP = [
  ...['stream', 'stream_options', 'background', 'thinking', 'reasoning_effort', 'output_config', 'store'],
  ...['web_search_options', 'mcp_servers', 'container', 'thread', 'functions', 'previous_response_id', 'conversation'],
  ...['prompt_cache_key', 'prompt_cache_retention', 'prompt_cache_options', 'prediction', 'thinking_budget'],
  ...['max_new_tokens', 'max_tokens_to_sample', 'max_gen_len', 'n_predict', 'num_predict'],
];

const DECISIVE_IN_ALL_BUT_MESSAGES = [
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'max_uses', 'budget_tokens', 'include_usage'],
  ...['effort', 'edits'],
];

/** Those of a prompt say what it only refers to, and what it costs to keep. */
const DECISIVE_ANYWHERE = [
  ...['type', 'content', 'source', 'url', 'image_url', 'data', 'audio', 'tools', 'tool_calls', 'output', 'id'],
  ...['name', 'function', 'custom'],
  ...['file_id', 'encrypted_content', 'action', 'cache_control', 'ttl', 'prompt_cache_breakpoint'],
];

const PROMPT = ['messages', 'system', 'instructions', 'prompt'];

/** Keys under which there are the names and values of somebody else: schemas, arguments, labels. */
const DATA = [
  ...['input_schema', 'output_schema', 'schema', 'properties', 'patternProperties', '$defs', 'definitions'],
  ...['default', 'const', 'enum', 'example', 'examples', 'input_examples', 'arguments'],
  ...['metadata', 'client_metadata', 'variables', 'headers', 'env', 'logit_bias', 'chat_template_kwargs'],
];

/** Fields of the table are read however their words are joined, so that only one spelling at a time is unambiguous. */
function joined(name: string): readonly string[] {
  return [name.replaceAll('_', '-'), name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())];
}

const KEYS: readonly KnownKey[] = [
  ...DECISIVE_FIELDS.map(
    ({ name, level }): KnownKey => ({
      name,
      also: joined(name),
      decides: level === 'top' ? 'top' : 'not in messages',
    }),
  ),
  ...DECISIVE_AT_THE_TOP.map((name) => ({ name, decides: 'top' }) as const),
  ...DECISIVE_IN_ALL_BUT_MESSAGES.map((name) => ({ name, decides: 'not in messages' }) as const),
  ...DECISIVE_ANYWHERE.map((name) => ({ name, decides: 'anywhere' }) as const),
  ...PROMPT.map((name) => ({ name, decides: 'top', holds: { top: 'prompt' } }) as const),
  ...DATA.map((name) => ({ name, holds: { top: 'data', below: 'data' } }) as const),
  // In a call it holds the arguments.
  { name: 'input', decides: 'top', holds: { top: 'prompt', below: 'data' } },
];

/** The keys that matter in the bodies of Messages and Responses. */
export const KNOWN_KEYS: KeyNames = new KeyTable(KEYS);

/** Those in bodies of chat completions. */
export const CHAT_KEYS: KeyNames = new KeyTable([...KEYS, { name: 'n', decides: 'top' }]);

/** Those in bodies of APIs beside those for models: where the requests of a batch stand, too. */
export const OTHER_KEYS: KeyNames = new KeyTable([
  ...KEYS,
  ...['n', 'requests', 'body'].map((name) => ({ name, decides: 'top' }) as const),
  { name: 'params', decides: 'not in messages' },
]);
