import type { KeyNames, KnownKey } from '../../../base/contract/key-names.ts';
import { KeyTable } from '../../../base/kit/json/key-names.ts';

/**
 * A privileged field: beside `model`, it decides the model, price or account.
 *
 * `check`: the caller must be allowed to use every model in it. `price`: every value except the harmless ones needs a price.
 * `refuse`: rejected unless `upstreams[].allow_fields` lists it. `pass`: allowed; it costs money, which bounds and bills count.
 */
export interface PrivilegedField {
  /** Name in snake case; also matches camel case and kebab case. */
  readonly name: string;
  /** `top`: at the top level of the body; `any`: at any depth outside content and tool definitions. */
  readonly level: 'top' | 'any';
  readonly decides: 'model' | 'price' | 'account' | 'route' | 'bound';
  readonly rule: 'check' | 'price' | 'refuse' | 'pass';
  readonly harmless?: readonly string[];
  readonly meaning: string;
  readonly source: string;
}

const MESSAGES_API = 'Messages API reference, create a message';
const COMPAT_API = 'chat completions and Responses API references, create';
const RESPONSES_API = 'Responses API reference, create';
const OLD_COMPLETIONS = 'completions API, before version 1; servers of open models';
const AZURE = 'Azure OpenAI reference';
const AZURE_AGENTS = 'Azure AI Foundry, agent reference in Responses';
const OPENROUTER = 'OpenRouter API reference, request schema';
const LITELLM = 'LiteLLM proxy documentation';
const VERCEL = 'Vercel AI Gateway documentation, provider options';
const PORTKEY = 'Portkey documentation, configs';

type Row = readonly [
  names: string,
  level: PrivilegedField['level'],
  source: string,
  meaning: string,
  harmless?: readonly string[],
];

const fields = (
  decides: PrivilegedField['decides'],
  rule: PrivilegedField['rule'],
  rows: readonly Row[],
): PrivilegedField[] =>
  rows.flatMap(([names, level, source, meaning, harmless]) =>
    names.split(' ').map((name) => ({
      ...{ name, level, decides, rule, meaning, source },
      ...(harmless && { harmless }),
    })),
  );

const AGENT = 'a stored agent with a model and tools of its own';
const CREDENTIAL = 'which credential the next provider gets';
const TIERS = ['auto', 'default', 'standard', 'standard_only', 'on_demand', 'flex', 'batch'];

export const PRIVILEGED_FIELDS: readonly PrivilegedField[] = [
  ...fields('model', 'check', [
    ['model', 'any', `${MESSAGES_API}; ${RESPONSES_API}`, 'the model of a tool, fallback, plugin or moderation'],
    ['models', 'any', OPENROUTER, 'models that are tried one after the other, or that a router chooses from'],
    ['fallbacks', 'any', `${MESSAGES_API}; ${LITELLM}`, 'models that respond when the first declines or fails'],
    ['engine', 'top', OLD_COMPLETIONS, 'an older name of the model'],
    ['deployment deployment_name deployment_id', 'top', AZURE, 'the deployment of a model'],
  ]),
  ...fields('price', 'price', [
    ['service_tier', 'any', `${MESSAGES_API}; ${COMPAT_API}`, 'the capacity that serves the request', TIERS],
    ['speed', 'any', `${MESSAGES_API}; ${OPENROUTER}`, 'faster output, at a higher price', ['standard']],
    ['inference_geo', 'any', MESSAGES_API, 'where the model runs; a region costs more', ['global']],
    ['modalities', 'top', COMPAT_API, 'whether the response also has audio or images, at other prices', ['text']],
    ['input_audio', 'any', `${COMPAT_API}; servers of open models`, 'audio in the prompt, at other prices'],
    [
      ...(['best_of num_return_sequences candidate_count', 'top', OLD_COMPLETIONS] as const),
      'number of responses, beside `n`; all of them cost',
      ['0', '1'],
    ],
    ['performance_config', 'any', 'Amazon Bedrock', 'latency-optimized inference, at a higher price'],
  ]),
  ...fields('account', 'refuse', [
    ['billing_policy', 'any', MESSAGES_API, 'which organization pays'],
    ['user_profile_id', 'any', MESSAGES_API, 'for whom the request is made, and who may be billed'],
    ['workspace_id', 'any', MESSAGES_API, 'which workspace pays'],
    ['organization', 'any', COMPAT_API, 'which organization pays'],
    ['project', 'any', COMPAT_API, 'which project pays'],
    ['api_key', 'any', LITELLM, CREDENTIAL],
    ['byok', 'any', VERCEL, CREDENTIAL],
  ]),
  ...fields('route', 'refuse', [
    ['provider', 'top', OPENROUTER, 'which companies may serve the model, at which price'],
    ['provider_options gateway', 'top', VERCEL, 'models, providers and credentials of a router'],
    ['route', 'top', OPENROUTER, 'whether other models respond'],
    ['plugins', 'top', OPENROUTER, 'further models and paid work around the request'],
    ['preset', 'top', OPENROUTER, 'settings that are kept with the router, its models among them'],
    ['config', 'top', PORTKEY, 'targets, credentials and retries of a router'],
    ['targets', 'top', PORTKEY, 'targets of a router'],
    ['strategy', 'top', PORTKEY, 'how a router chooses its targets'],
    ['orq', 'top', 'orq.ai documentation, AI proxy', 'fallbacks and other settings of a router'],
    ['user_config', 'top', LITELLM, 'models and credentials of a router'],
    ['model_list', 'any', LITELLM, 'models and credentials of a router'],
    ['litellm_params', 'any', LITELLM, 'model and credential of a router'],
    ['custom_llm_provider', 'top', LITELLM, 'which company serves the model'],
    ['api_base base_url', 'any', LITELLM, 'to which server the next request goes'],
    ['extra_body', 'any', LITELLM, 'fields that a router adds to its own request'],
    ['extra_headers', 'any', LITELLM, 'headers that a router adds to its own request'],
    ['extra_query', 'any', LITELLM, 'query parameters that a router adds'],
    ['agent agent_reference', 'top', AZURE_AGENTS, AGENT],
    ['agent_id', 'top', 'Mistral agents API', AGENT],
    ['assistant_id', 'top', 'Assistants API reference', 'a stored assistant with a model and tools of its own'],
  ]),
  ...fields('price', 'refuse', [
    ['search_parameters', 'top', 'xAI API reference, live search', 'a live search, billed by its sources'],
  ]),
  ...fields('bound', 'pass', [
    ['context_management', 'top', MESSAGES_API, 'compaction by one more run of the model'],
    ['max_tool_calls', 'top', RESPONSES_API, 'how often tools of the provider may run'],
    ['reasoning', 'top', `${COMPAT_API}; ${OPENROUTER}`, 'how much is thought; thinking counts as output'],
    ['prompt', 'top', RESPONSES_API, 'a stored prompt; its size counts as the whole window'],
  ]),
];

export type FieldRule = Pick<PrivilegedField, 'name' | 'decides' | 'rule' | 'harmless' | 'meaning'>;

/** Names of unknown fields that name models, such as `fallbackModel` and `judge-model-id`. */
const MODEL_NAME =
  /(?:^|_)(?:(?:models?|llms?)(?:_?(?:id|name|slug|override|alias|ref|choice|preference|candidate|chain|order|group|pool|version)(?:s|es)?)?|fallbacks?(?:_(?:dict|map|list))?)$/;

const ACCOUNT_NAME =
  /(?:^|_)(?:organi[sz]ations?|org|workspaces?|projects?|tenants?|accounts?|user_profile|billing|bill_to|subscription|cost_cent(?:er|re))(?:_(?:ids?|slug|name|key|code))?$|^(?:billing|aws|azure|vertex|watsonx|sagemaker)_/;

const CREDENTIAL_NAME =
  /(?:^|_)(?:api_?keys?|(?:virtual|provider|secret|access)_keys?(?:_ids?)?|(?:auth|access)_tokens?|credentials?(?:_(?:names?|ids?))?|auth|authorization|authentication)$/;

const ROUTE_NAME =
  /^(?:providers?|routes?|routers?|routing)(?:_(?:order|options?|preferences?|names?|ids?|only|ignore|config|settings|strategy))?$/;

const NAME_LENGTH_MAX = 100;

const REMEMBERED_MAX = 2000;

/** A key as lenient parsers read it: NFKC, lower case, no invisible characters. */
function foldCase(key: string): string {
  return key
    .normalize('NFKC')
    .replace(/[\p{C}\p{Z}]/gu, '')
    .toUpperCase()
    .toLowerCase();
}

function snakeCase(key: string): string {
  const words = key
    .normalize('NFKC')
    .replace(/([a-z\d])([A-Z])/g, '$1_$2')
    .replace(/\p{Z}+/gu, '_');
  return foldCase(words).replace(/[^a-z\d]+/g, '_');
}

const OF_TABLE = new Map(PRIVILEGED_FIELDS.filter(({ rule }) => rule !== 'pass').map((field) => [field.name, field]));

function ruleOf(folded: string): (FieldRule & { readonly level: 'top' | 'any' }) | undefined {
  const named = OF_TABLE.get(folded);
  if (named !== undefined) return named;
  // Folding can lengthen a name; the patterns match its end.
  const name = folded.slice(-NAME_LENGTH_MAX);
  if (MODEL_NAME.test(name)) return { name, level: 'any', decides: 'model', rule: 'check', meaning: 'a model' };
  if (ROUTE_NAME.test(name))
    return { name, level: 'top', decides: 'route', rule: 'refuse', meaning: 'the provider of the model' };
  const account = ACCOUNT_NAME.test(name);
  if (!account && !CREDENTIAL_NAME.test(name)) return undefined;
  const meaning = account ? 'which account pays' : 'the credential for the next provider';
  return { name, level: 'any', decides: 'account', rule: 'refuse', meaning };
}

type LevelRule = NonNullable<ReturnType<typeof ruleOf>>;

const remembered = new Map<string, LevelRule | null>();

/** Number of uncached keys in one body. Clients send the same few; classifying new ones takes time. */
export interface KeyCount {
  unknown_keys: number;
}

/** The rule for a key; `undefined` for keys that are not privileged. */
export function fieldRule(key: string, is_top_level: boolean, count?: KeyCount): FieldRule | undefined {
  let rule = remembered.get(key);
  if (rule === undefined) {
    if (count !== undefined) count.unknown_keys++;
    if (key.length > NAME_LENGTH_MAX) return undefined;
    rule = ruleOf(foldCase(key)) ?? ruleOf(snakeCase(key)) ?? null;
    if (remembered.size >= REMEMBERED_MAX) remembered.clear();
    remembered.set(key, rule);
  }
  return rule === null || (rule.level === 'top' && !is_top_level) ? undefined : rule;
}

/** The names of all known privileged fields. */
export const PRIVILEGED_NAMES: readonly string[] = PRIVILEGED_FIELDS.map(({ name }) => name);

/*
 * Keys that decide models, costs or accounts in any protocol. Two parsers must never disagree on them, so duplicates and second
 * spellings are rejected.
 */

const PRIVILEGED_AT_THE_TOP = [
  ...['stream', 'stream_options', 'background', 'thinking', 'reasoning_effort', 'output_config', 'store'],
  ...['web_search_options', 'mcp_servers', 'container', 'thread', 'functions', 'previous_response_id', 'conversation'],
  ...['prompt_cache_key', 'prompt_cache_retention', 'prompt_cache_options', 'prediction', 'thinking_budget'],
  ...['max_new_tokens', 'max_tokens_to_sample', 'max_gen_len', 'n_predict', 'num_predict'],
];

const PRIVILEGED_IN_ALL_BUT_MESSAGES = [
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'max_uses', 'budget_tokens', 'include_usage'],
  ...['effort', 'edits'],
];

/** Keys inside prompts: references to other content, and cache lifetimes. */
const PRIVILEGED_ANYWHERE = [
  ...['type', 'content', 'source', 'url', 'image_url', 'data', 'audio', 'tools', 'tool_calls', 'output', 'id'],
  ...['name', 'function', 'custom'],
  ...['file_id', 'encrypted_content', 'action', 'cache_control', 'ttl', 'prompt_cache_breakpoint'],
];

const PROMPT = ['messages', 'system', 'instructions', 'prompt'];

/** Keys of objects whose member names callers choose: schemas, arguments, labels. */
const DATA = [
  ...['input_schema', 'output_schema', 'schema', 'properties', 'patternProperties', '$defs', 'definitions'],
  ...['default', 'const', 'enum', 'example', 'examples', 'input_examples', 'arguments'],
  ...['metadata', 'client_metadata', 'variables', 'headers', 'env', 'logit_bias', 'chat_template_kwargs'],
];

/** Other spellings of a privileged field; a body may use only one of them. */
function joined(name: string): readonly string[] {
  return [name.replaceAll('_', '-'), name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())];
}

const KEYS: readonly KnownKey[] = [
  ...PRIVILEGED_FIELDS.map(
    ({ name, level }): KnownKey => ({
      name,
      also: joined(name),
      decides: level === 'top' ? 'top' : 'not in messages',
    }),
  ),
  ...PRIVILEGED_AT_THE_TOP.map((name) => ({ name, decides: 'top' }) as const),
  ...PRIVILEGED_IN_ALL_BUT_MESSAGES.map((name) => ({ name, decides: 'not in messages' }) as const),
  ...PRIVILEGED_ANYWHERE.map((name) => ({ name, decides: 'anywhere' }) as const),
  ...PROMPT.map((name) => ({ name, decides: 'top', holds: { top: 'prompt' } }) as const),
  ...DATA.map((name) => ({ name, holds: { top: 'data', below: 'data' } }) as const),
  // In a tool call, `input` is the arguments.
  { name: 'input', decides: 'top', holds: { top: 'prompt', below: 'data' } },
];

export const KNOWN_KEYS: KeyNames = new KeyTable(KEYS);

export const CHAT_KEYS: KeyNames = new KeyTable([...KEYS, { name: 'n', decides: 'top' }]);

/** The keys that matter in bodies of other APIs, including the requests of a batch. */
export const OTHER_KEYS: KeyNames = new KeyTable([
  ...KEYS,
  ...['n', 'requests', 'body'].map((name) => ({ name, decides: 'top' }) as const),
  { name: 'params', decides: 'not in messages' },
]);
