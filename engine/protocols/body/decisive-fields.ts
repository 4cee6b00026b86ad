import type { Protocol } from '../../contract/protocol.ts';

/**
 * A field beside `model` that decides over models, prices or accounts.
 *
 * `check`: every model it names must be one the caller may use. `price`: every value but the harmless ones needs a price.
 * `refuse`: refused unless `upstreams[].allow_fields` lists it. `pass`: noted here because it costs money, and counted by
 * the bounds and by the bill.
 */
export interface DecisiveField {
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

type Row = readonly [name: string, level: DecisiveField['level'], meaning: string];

const model = ([name, level, meaning]: Row, protocols: readonly Protocol[], source: string): DecisiveField => ({
  name,
  level,
  protocols,
  decides: 'model',
  rule: 'check',
  meaning,
  source,
});

const refused = (
  decides: DecisiveField['decides'],
  protocols: readonly Protocol[],
  source: string,
  rows: readonly Row[],
): DecisiveField[] =>
  rows.map(([name, level, meaning]) => ({ name, level, protocols, decides, rule: 'refuse', meaning, source }));

/** Every field beside `model` that is known to decide over models, prices or accounts. Unknown fields pass. */
export const DECISIVE_FIELDS: readonly DecisiveField[] = [
  model(
    ['model', 'any', 'the model of a tool, a fallback, a plugin or a moderation'],
    EVERY,
    `${MESSAGES_REFERENCE} (advisor tool); Responses API reference (image generation tool, moderation)`,
  ),
  model(
    ['models', 'any', 'models that are tried one after the other, or that a router chooses from'],
    EVERY,
    OPENROUTER,
  ),
  model(
    ['fallbacks', 'any', 'models that answer when the first one declines or fails'],
    EVERY,
    `${MESSAGES_REFERENCE} (server-side fallback); ${LITELLM} (client-side fallbacks)`,
  ),
  model(['engine', 'top', 'an older name of the model'], CHAT, 'completions API, before version 1'),
  model(['deployment', 'top', 'the deployment of a model'], COMPAT, 'Azure OpenAI reference'),
  model(['deployment_name', 'top', 'the deployment of a model'], COMPAT, 'Azure OpenAI reference'),
  model(['deployment_id', 'top', 'the deployment of a model'], COMPAT, 'Azure OpenAI reference'),

  {
    name: 'service_tier',
    level: 'any',
    protocols: EVERY,
    decides: 'price',
    rule: 'price',
    harmless: ['auto', 'default', 'standard', 'standard_only', 'on_demand', 'flex', 'batch'],
    meaning: 'the capacity that serves the request; priority and fast cost a multiple, flex and batch less',
    source: `${MESSAGES_REFERENCE} (service tiers); ${COMPAT_REFERENCE} (service_tier)`,
  },
  {
    name: 'speed',
    level: 'any',
    protocols: EVERY,
    decides: 'price',
    rule: 'price',
    harmless: ['standard'],
    meaning: 'the same model with faster output, at a multiple of the price',
    source: `${MESSAGES_REFERENCE} (fast mode); ${OPENROUTER}`,
  },
  {
    name: 'inference_geo',
    level: 'any',
    protocols: MESSAGES,
    decides: 'price',
    rule: 'price',
    harmless: ['global'],
    meaning: 'where the model runs; a region costs more than anywhere',
    source: `${MESSAGES_REFERENCE} (data residency)`,
  },
  {
    name: 'modalities',
    level: 'top',
    protocols: COMPAT,
    decides: 'price',
    rule: 'price',
    harmless: ['text'],
    meaning: 'whether the answer is also spoken or drawn; those tokens have prices of their own',
    source: COMPAT_REFERENCE,
  },
  {
    name: 'input_audio',
    level: 'any',
    protocols: COMPAT,
    decides: 'price',
    rule: 'price',
    meaning: 'audio in the conversation, also as a part of another type; its tokens have prices of their own',
    source: `${COMPAT_REFERENCE} (input_audio); servers of open models (audio_url)`,
  },
  ...['best_of', 'num_return_sequences', 'candidate_count'].map(
    (name): DecisiveField => ({
      name,
      level: 'top',
      protocols: CHAT,
      decides: 'price',
      rule: 'price',
      harmless: ['0', '1'],
      meaning: 'how many answers are made, beside `n`; all of them cost',
      source: 'completions API, before version 1; servers of open models',
    }),
  ),
  {
    name: 'performance_config',
    level: 'any',
    protocols: EVERY,
    decides: 'price',
    rule: 'price',
    meaning: 'latency-optimized inference, at a higher price',
    source: 'Amazon Bedrock, latency-optimized inference',
  },

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

  {
    name: 'context_management',
    level: 'top',
    protocols: ['messages', 'responses'],
    decides: 'bound',
    rule: 'pass',
    meaning: 'compaction runs the model once more over the input; billed by `usage.iterations`',
    source: `${MESSAGES_REFERENCE} (compaction)`,
  },
  {
    name: 'max_tool_calls',
    level: 'top',
    protocols: ['responses'],
    decides: 'bound',
    rule: 'pass',
    meaning: 'how often tools of the provider may run',
    source: 'Responses API reference, create',
  },
  {
    name: 'reasoning',
    level: 'top',
    protocols: COMPAT,
    decides: 'bound',
    rule: 'pass',
    meaning: 'how much is thought; thinking counts as output, at the prices of the model',
    source: `${COMPAT_REFERENCE}; ${OPENROUTER}`,
  },
  {
    name: 'prompt',
    level: 'top',
    protocols: ['responses'],
    decides: 'bound',
    rule: 'pass',
    meaning:
      'a stored prompt; the `model` of the request overrides the one it was stored with, its size counts as the whole window',
    source: 'Responses API reference, create',
  },
];
