import type { KeyNames, KnownKey } from '../../../base/contract/key-names.ts';
import type { Protocol } from '../../../base/contract/protocol.ts';
import { KeyTable } from '../../../base/kit/json/key-names.ts';

/**
 * A field beside `model` that decides over models, prices or accounts.
 *
 * `check`: every model it names must be one the caller may use. `price`: every value but the harmless ones needs a price.
 * `refuse`: refused unless `upstreams[].allow_fields` lists it. `pass`: noted here because it costs money, and counted by
 * the bounds and by the bill.
 */
export interface PrivilegedField {
  /** Its name in snake case; camel case and kebab case are the same field. */
  readonly name: string;
  /** `top`: at the top level of the body; `any`: at any depth outside content and definitions of tools. */
  readonly level: 'top' | 'any';
  readonly protocols: readonly Protocol[];
  readonly decides: 'model' | 'price' | 'account' | 'route' | 'bound';
  readonly rule: 'check' | 'price' | 'refuse' | 'pass';
  /** Values that never cost more than leaving the field out. */
  readonly harmless?: readonly string[];
  readonly meaning: string;
  /** Who documents it, and where. */
  readonly source: string;
}

const MESSAGES = ['messages'] as const;
const CHAT = ['chat'] as const;
const COMPAT = ['chat', 'responses'] as const;
const EVERY = ['messages', 'chat', 'responses'] as const;

const MESSAGES_REFERENCE = 'Messages API reference, create a message';
const COMPAT_REFERENCE = 'chat completions and Responses API references, create';
const OPENROUTER = 'OpenRouter API reference, request schema';
const LITELLM = 'LiteLLM proxy documentation';
const VERCEL = 'Vercel AI Gateway documentation, provider options';
const PORTKEY = 'Portkey documentation, configs';

type Row = readonly [name: string, level: PrivilegedField['level'], meaning: string, harmless?: readonly string[]];

const fields = (
  decides: PrivilegedField['decides'],
  rule: PrivilegedField['rule'],
  protocols: readonly Protocol[],
  source: string,
  rows: readonly Row[],
): PrivilegedField[] =>
  rows.map(([name, level, meaning, harmless]) => ({
    ...{ name, level, protocols, decides, rule, meaning, source },
    ...(harmless && { harmless }),
  }));

const models = (protocols: readonly Protocol[], source: string, rows: readonly Row[]) =>
  fields('model', 'check', protocols, source, rows);
const priced = (protocols: readonly Protocol[], source: string, rows: readonly Row[]) =>
  fields('price', 'price', protocols, source, rows);
const bounding = (protocols: readonly Protocol[], source: string, rows: readonly Row[]) =>
  fields('bound', 'pass', protocols, source, rows);
const refused = (
  decides: PrivilegedField['decides'],
  protocols: readonly Protocol[],
  source: string,
  rows: readonly Row[],
) => fields(decides, 'refuse', protocols, source, rows);

const DEPLOYMENT = 'the deployment of a model';
const ANSWERS = 'how many answers are made, beside `n`; all of them cost';
const ONE = ['0', '1'];

/** Every field beside `model` that is known to decide over models, prices or accounts. Unknown fields pass. */
export const PRIVILEGED_FIELDS: readonly PrivilegedField[] = [
  ...models(
    EVERY,
    `${MESSAGES_REFERENCE} (advisor tool); Responses API reference (image generation tool, moderation)`,
    [['model', 'any', 'the model of a tool, a fallback, a plugin or a moderation']],
  ),
  ...models(EVERY, OPENROUTER, [
    ['models', 'any', 'models that are tried one after the other, or that a router chooses from'],
  ]),
  ...models(EVERY, `${MESSAGES_REFERENCE} (server-side fallback); ${LITELLM} (client-side fallbacks)`, [
    ['fallbacks', 'any', 'models that answer when the first one declines or fails'],
  ]),
  ...models(CHAT, 'completions API, before version 1', [['engine', 'top', 'an older name of the model']]),
  ...models(COMPAT, 'Azure OpenAI reference', [
    ['deployment', 'top', DEPLOYMENT],
    ['deployment_name', 'top', DEPLOYMENT],
    ['deployment_id', 'top', DEPLOYMENT],
  ]),

  ...priced(EVERY, `${MESSAGES_REFERENCE} (service tiers); ${COMPAT_REFERENCE} (service_tier)`, [
    [
      ...(['service_tier', 'any'] as const),
      'the capacity that serves the request; priority and fast cost a multiple, flex and batch less',
      ['auto', 'default', 'standard', 'standard_only', 'on_demand', 'flex', 'batch'],
    ],
  ]),
  ...priced(EVERY, `${MESSAGES_REFERENCE} (fast mode); ${OPENROUTER}`, [
    ['speed', 'any', 'the same model with faster output, at a multiple of the price', ['standard']],
  ]),
  ...priced(MESSAGES, `${MESSAGES_REFERENCE} (data residency)`, [
    ['inference_geo', 'any', 'where the model runs; a region costs more than anywhere', ['global']],
  ]),
  ...priced(COMPAT, COMPAT_REFERENCE, [
    [
      'modalities',
      'top',
      'whether the answer is also spoken or drawn; those tokens have prices of their own',
      ['text'],
    ],
  ]),
  ...priced(COMPAT, `${COMPAT_REFERENCE} (input_audio); servers of open models (audio_url)`, [
    [
      'input_audio',
      'any',
      'audio in the conversation, also as a part of another type; its tokens have prices of their own',
    ],
  ]),
  ...priced(CHAT, 'completions API, before version 1; servers of open models', [
    ['best_of', 'top', ANSWERS, ONE],
    ['num_return_sequences', 'top', ANSWERS, ONE],
    ['candidate_count', 'top', ANSWERS, ONE],
  ]),
  ...priced(EVERY, 'Amazon Bedrock, latency-optimized inference', [
    ['performance_config', 'any', 'latency-optimized inference, at a higher price'],
  ]),

  ...refused('account', MESSAGES, MESSAGES_REFERENCE, [['billing_policy', 'any', 'which organization pays']]),
  ...refused('account', EVERY, MESSAGES_REFERENCE, [
    ['user_profile_id', 'any', 'for whom the request is made, and who may be billed'],
    ['workspace_id', 'any', 'which workspace pays'],
  ]),
  ...refused('account', EVERY, COMPAT_REFERENCE, [
    ['organization', 'any', 'which organization pays'],
    ['project', 'any', 'which project pays'],
  ]),
  ...refused('account', EVERY, `${LITELLM} (client-side credentials)`, [
    ['api_key', 'any', 'with which credential the next provider is asked'],
  ]),
  ...refused('account', EVERY, VERCEL, [['byok', 'any', 'with which credential the next provider is asked']]),
  ...refused('route', EVERY, OPENROUTER, [['provider', 'top', 'which companies may serve the model, at which price']]),
  ...refused('route', EVERY, VERCEL, [
    ['provider_options', 'top', 'models, providers and credentials of a router'],
    ['gateway', 'top', 'models, providers and credentials of a router'],
  ]),
  ...refused('route', EVERY, OPENROUTER, [
    ['route', 'top', 'whether other models answer'],
    ['plugins', 'top', 'further models and paid work around the request'],
    ['preset', 'top', 'settings that are kept with the router, its models among them'],
  ]),
  ...refused('route', EVERY, PORTKEY, [
    ['config', 'top', 'targets, credentials and retries of a router'],
    ['targets', 'top', 'targets of a router'],
    ['strategy', 'top', 'how a router chooses its targets'],
  ]),
  ...refused('route', EVERY, 'orq.ai documentation, AI proxy', [
    ['orq', 'top', 'fallbacks and other settings of a router'],
  ]),
  ...refused('route', EVERY, LITELLM, [
    ['user_config', 'top', 'models and credentials of a router'],
    ['model_list', 'any', 'models and credentials of a router'],
    ['litellm_params', 'any', 'model and credential of a router'],
    ['custom_llm_provider', 'top', 'which company serves the model'],
    ['api_base', 'any', 'to which server the next request goes'],
    ['base_url', 'any', 'to which server the next request goes'],
    ['extra_body', 'any', 'fields that a router adds to its own request'],
    ['extra_headers', 'any', 'headers that a router adds to its own request'],
    ['extra_query', 'any', 'query parameters that a router adds'],
  ]),
  ...refused('route', COMPAT, 'Azure AI Foundry, agent reference in Responses', [
    ['agent', 'top', 'a stored agent with a model and tools of its own'],
    ['agent_reference', 'top', 'a stored agent with a model and tools of its own'],
  ]),
  ...refused('route', EVERY, 'Mistral agents API', [
    ['agent_id', 'top', 'a stored agent with a model and tools of its own'],
  ]),
  ...refused('route', COMPAT, 'Assistants API reference', [
    ['assistant_id', 'top', 'a stored assistant with a model and tools of its own'],
  ]),
  ...refused('price', COMPAT, 'xAI API reference, live search', [
    ['search_parameters', 'top', 'a live search that is billed by its sources'],
  ]),

  ...bounding(['messages', 'responses'], `${MESSAGES_REFERENCE} (compaction)`, [
    ['context_management', 'top', 'compaction runs the model once more over the input; billed by `usage.iterations`'],
  ]),
  ...bounding(['responses'], 'Responses API reference, create', [
    ['max_tool_calls', 'top', 'how often tools of the provider may run'],
  ]),
  ...bounding(COMPAT, `${COMPAT_REFERENCE}; ${OPENROUTER}`, [
    ['reasoning', 'top', 'how much is thought; thinking counts as output, at the prices of the model'],
  ]),
  ...bounding(['responses'], 'Responses API reference, create', [
    [
      ...(['prompt', 'top'] as const),
      'a stored prompt; the `model` of the request overrides the one it was stored with, its size counts as the whole window',
    ],
  ]),
];

/** What is to be done about a field. */
export type FieldRule = Pick<PrivilegedField, 'name' | 'decides' | 'rule' | 'harmless' | 'meaning'>;

/** Names of unknown fields that hold models, such as `fallbackModel` and `judge-model-id`. */
const MODEL_NAME =
  /(?:^|_)(?:(?:models?|llms?)(?:_?(?:id|name|slug|override|alias|ref|choice|preference|candidate|chain|order|group|pool|version)(?:s|es)?)?|fallbacks?(?:_(?:dict|map|list))?)$/;

/** Names of fields that choose an account though no table names them. */
const ACCOUNT_NAME =
  /(?:^|_)(?:organi[sz]ations?|org|workspaces?|projects?|tenants?|accounts?|user_profile|billing|bill_to|subscription|cost_cent(?:er|re))(?:_(?:ids?|slug|name|key|code))?$|^(?:billing|aws|azure|vertex|watsonx|sagemaker)_/;

/** Names of fields that hold credentials though no table names them. */
const CREDENTIAL_NAME =
  /(?:^|_)(?:api_?keys?|(?:virtual|provider|secret|access)_keys?(?:_ids?)?|(?:auth|access)_tokens?|credentials?(?:_(?:names?|ids?))?|auth|authorization|authentication)$/;

const ROUTE_NAME =
  /^(?:providers?|routes?|routers?|routing)(?:_(?:order|options?|preferences?|names?|ids?|only|ignore|config|settings|strategy))?$/;

/** Longest name of a field that is looked at: no parser knows longer ones. */
const NAME_LENGTH_MAX = 100;

/** Most names whose rules are remembered. */
const REMEMBERED_MAX = 2000;

/** A key as lenient parsers read it: plain letters, lower case, no invisible characters. */
function foldCase(key: string): string {
  return key
    .normalize('NFKC')
    .replace(/[\p{C}\p{Z}]/gu, '')
    .toUpperCase()
    .toLowerCase();
}

/** A key in snake case, however its words are joined. */
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
  // Folding can make a name longer; its end is what counts.
  const name = folded.slice(-NAME_LENGTH_MAX);
  if (MODEL_NAME.test(name)) return { name, level: 'any', decides: 'model', rule: 'check', meaning: 'a model' };
  if (ROUTE_NAME.test(name))
    return { name, level: 'top', decides: 'route', rule: 'refuse', meaning: 'who serves the model' };
  const account = ACCOUNT_NAME.test(name);
  if (!account && !CREDENTIAL_NAME.test(name)) return undefined;
  const meaning = account ? 'which account pays' : 'with which credential the next provider is asked';
  return { name, level: 'any', decides: 'account', rule: 'refuse', meaning };
}

type LevelRule = NonNullable<ReturnType<typeof ruleOf>>;

/** `null` for keys that decide nothing. */
const remembered = new Map<string, LevelRule | null>();

/** How many keys of one body had to be looked at closely: clients send the same few, and looking takes time. */
export interface KeyCount {
  unknown_keys: number;
}

/** What is to be done about a field of this key; `undefined` where it decides nothing. */
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

/** The names of all fields that are known to decide something. */
export const PRIVILEGED_NAMES: readonly string[] = PRIVILEGED_FIELDS.map(({ name }) => name);

/*
 * Keys that decide over models, money or accounts, in any of the protocols. Nothing may make two parsers disagree on one of them:
 * neither a second one in the same object nor another spelling.
 */

/** Fields for bounds and meters beside the table. */
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

/** Those of a prompt say what it only refers to, and what it costs to keep. */
const PRIVILEGED_ANYWHERE = [
  ...['type', 'content', 'source', 'url', 'image_url', 'data', 'audio', 'tools', 'tool_calls', 'output', 'id'],
  ...['name', 'function', 'custom'],
  ...['file_id', 'encrypted_content', 'action', 'cache_control', 'ttl', 'prompt_cache_breakpoint'],
];

const PROMPT = ['messages', 'system', 'instructions', 'prompt'];

/** Keys of objects with names of the caller's own: schemas, arguments, labels. */
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
