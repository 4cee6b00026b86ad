import { type Answer, defineStage, type ModelConfig, StageError } from '../engine/api.ts';
import { CALLER_FACTS, callerOf, createIsListed } from '../engine/domain/upstreams/index.ts';

const PAGE_MAX = 1000;

/** Page size of a paged request without `limit`. */
const PAGE_DEFAULT = 20;

/** Longest part of an identifier that an error quotes, in characters. */
const QUOTED_LENGTH_MAX = 100;

const ONE_MODEL = '/models/';

interface Entry {
  readonly model: ModelConfig;
  readonly json: string;
}

/** Whether a model has a capability; `null` when unknown. */
const supported = (supported: boolean | null) => ({ supported });

/** Capabilities that gateway.yaml does not describe; clients expect the keys. */
const UNKNOWN = supported(null);

/** The capabilities of a model in the form of the Messages API; the last three are additions. */
function capabilitiesOf({ supports, assumed }: ModelConfig): object {
  const known = <K extends keyof typeof supports>(key: K) =>
    assumed.includes(`supports.${key}`) ? undefined : supports[key];
  const thinking = known('thinking');
  const thinks = (how: (mode: typeof supports.thinking) => boolean) =>
    supported(thinking === undefined ? null : how(thinking));
  const effort = thinks((how) => how === 'adaptive');
  return {
    batch: UNKNOWN,
    citations: UNKNOWN,
    code_execution: UNKNOWN,
    context_management: {
      supported: null,
      clear_thinking_20251015: null,
      clear_tool_uses_20250919: null,
      compact_20260112: null,
    },
    effort: { ...effort, low: effort, medium: effort, high: effort, xhigh: null, max: UNKNOWN },
    image_input: supported(known('images') ?? null),
    pdf_input: UNKNOWN,
    server_tools: { supported: null, code_execution: UNKNOWN, web_search: UNKNOWN },
    structured_outputs: UNKNOWN,
    thinking: {
      ...thinks((how) => how !== 'none'),
      types: {
        adaptive: effort,
        between_tools: UNKNOWN,
        disabled: thinks(() => true),
        enabled: thinks((how) => how === 'budget'),
      },
    },
    tools: supported(known('tools') ?? null),
    sampling: supported(known('sampling') ?? null),
    prompt_cache_1h: supported(known('prompt_cache_1h') ?? null),
  };
}

/** An entry of the list, with the fields of both the Messages and the chat-completions API. */
function describe(model: ModelConfig): object {
  const window = model.assumed.includes('context_window') ? undefined : model.context_window;
  return {
    type: 'model',
    object: 'model',
    id: model.id,
    display_name: model.display_name ?? model.id,
    // Release dates are not in gateway.yaml; in the Messages API, the epoch stands for an unknown date.
    created_at: '1970-01-01T00:00:00Z',
    created: 0,
    owned_by: 'gateway',
    max_input_tokens: window ?? null,
    ...(window !== undefined && { context_window: window }),
    max_tokens: model.assumed.includes('max_output_tokens') ? null : model.max_output_tokens,
    capabilities: capabilitiesOf(model),
    lifecycle: 'active',
    line: null,
    deprecated_at: null,
    retires_at: null,
  };
}

function refuse(param: string, message: string): StageError {
  return new StageError('invalid_request', `${param}: ${message}`, { details: { param } });
}

function readQuery(url: string) {
  const question = url.indexOf('?');
  const query = new URLSearchParams(question < 0 ? '' : url.slice(question + 1));
  const after = query.get('after_id') ?? undefined;
  const before = query.get('before_id') ?? undefined;
  if (after !== undefined && before !== undefined) {
    throw refuse('before_id', 'cannot be combined with after_id');
  }
  const limit = query.get('limit');
  if (limit === null) {
    // Chat-completions clients do not page: without any paging parameter, the response is the whole list.
    return { limit: after === undefined && before === undefined ? Infinity : PAGE_DEFAULT, after, before };
  }
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > PAGE_MAX) {
    throw refuse('limit', `must be a whole number from 1 to ${PAGE_MAX}`);
  }
  return { limit: Number(limit), after, before };
}

function indexOf(entries: readonly Entry[], param: string, id: string): number {
  const index = entries.findIndex(({ model }) => model.id === id);
  if (index < 0) throw refuse(param, 'must be the id of a model in this list');
  return index;
}

function pageOf(entries: readonly Entry[], { limit, after, before }: ReturnType<typeof readQuery>) {
  if (before !== undefined) {
    const end = indexOf(entries, 'before_id', before);
    const start = Math.max(0, end - limit);
    return { entries: entries.slice(start, end), has_more: start > 0 };
  }
  const start = after === undefined ? 0 : indexOf(entries, 'after_id', after) + 1;
  return { entries: entries.slice(start, start + limit), has_more: start + limit < entries.length };
}

function answer(body: string): Answer {
  return { kind: 'answer', status: 200, headers: { 'content-type': 'application/json' }, body };
}

function listOf({ entries, has_more }: ReturnType<typeof pageOf>): Answer {
  const [first, last] = [entries[0], entries.at(-1)].map((entry) => JSON.stringify(entry?.model.id ?? null));
  const data = entries.map(({ json }) => json).join(',');
  // Some coding CLIs require `models`. It stays empty: entries would override the client's own instructions and context
  // window for a model.
  return answer(
    `{"object":"list","data":[${data}],"has_more":${has_more},"first_id":${first},"last_id":${last},"models":[]}`,
  );
}

/** The model identifier in a URL; `undefined` for the list itself. */
function idIn(url: string): string | undefined {
  const [path = ''] = url.split('?');
  const at = path.indexOf(ONE_MODEL);
  if (at < 0) return undefined;
  const id = path.slice(at + ONE_MODEL.length);
  try {
    return decodeURIComponent(id);
  } catch {
    throw new StageError('invalid_request', 'The identifier of the model in the path is not percent-encoded UTF-8.');
  }
}

function notFound(id: string): StageError {
  const model = id.length > QUOTED_LENGTH_MAX ? `${id.slice(0, QUOTED_LENGTH_MAX)}...` : id;
  const message = `Model not found: "${model}". GET /v1/models lists the models you may use.`;
  return new StageError('model_not_found', message, { details: { model } });
}

export default defineStage({
  name: 'list-models',
  version: 1,
  summary: 'Responds with the models that the caller may use, or with the one in the path.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'No options', yaml: '- stage: list-models' }],
  reads: ['principal.email', 'principal.groups'],
  readsIfSet: CALLER_FACTS,
  raises: ['invalid_request', 'model_not_found'],
  needs: ['respond'],
  terminal: true,
  create(_options, { config, models }) {
    const isListed = createIsListed(config, models);
    const known = new WeakMap<ModelConfig, Entry>();
    const entryOf = (model: ModelConfig): Entry => {
      const entry = known.get(model) ?? { model, json: JSON.stringify(describe(model)) };
      known.set(model, entry);
      return entry;
    };
    return {
      request(ctx) {
        const caller = callerOf(ctx);
        const facts = new Map<string, unknown>([
          ...CALLER_FACTS.map((path) => [path, ctx.get(path)] as const),
          ['principal.email', caller.email],
          ['principal.groups', caller.groups],
        ]);
        const isUsable = isListed(caller, facts);
        const id = idIn(ctx.url);
        if (id === undefined) return listOf(pageOf(models.all.filter(isUsable).map(entryOf), readQuery(ctx.url)));
        const model = models.find(id, caller.groups);
        // Models that the caller may not use get the same 404 as unknown ones.
        if (model !== undefined && isUsable(model)) return answer(entryOf(model).json);
        throw notFound(id);
      },
    };
  },
});
