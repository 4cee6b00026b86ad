import { answerJson, defineStage, type ModelCaller, type ModelConfig, StageError } from '../engine/api.ts';

/** Most entries on one page; also the page of a client that does not ask for pages. */
const PAGE_MAX = 1000;

/** Entries on a page when a client pages without saying how large. */
const PAGE_DEFAULT = 20;

/** One entry, with the fields both of Messages and of chat-completions clients. */
interface ModelEntry {
  readonly type: 'model';
  readonly object: 'model';
  readonly id: string;
  readonly display_name: string;
  readonly created_at: string;
  readonly created: number;
  readonly owned_by: string;
}

/** What the query asks for. */
interface PageRequest {
  readonly limit: number;
  readonly after: string | undefined;
  readonly before: string | undefined;
}

interface Page {
  readonly data: readonly ModelEntry[];
  readonly has_more: boolean;
}

function describe(model: ModelConfig): ModelEntry {
  return {
    type: 'model',
    object: 'model',
    id: model.id,
    display_name: model.display_name ?? model.id,
    // Release dates are not in gateway.yaml; the epoch is what the Messages API says for an unknown one.
    created_at: '1970-01-01T00:00:00Z',
    created: 0,
    owned_by: 'gateway',
  };
}

function refuse(param: string, message: string): StageError {
  return new StageError('invalid_request', `${param}: ${message}`, { details: { param } });
}

function readQuery(url: string): PageRequest {
  const question = url.indexOf('?');
  const query = new URLSearchParams(question < 0 ? '' : url.slice(question + 1));
  const after = query.get('after_id') ?? undefined;
  const before = query.get('before_id') ?? undefined;
  if (after !== undefined && before !== undefined) {
    throw refuse('before_id', 'cannot be combined with after_id; a page goes one way');
  }
  // Chat-completions clients know no pages: without any paging parameter they get the whole list.
  const limit = query.get('limit') ?? String(after === undefined && before === undefined ? PAGE_MAX : PAGE_DEFAULT);
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > PAGE_MAX) {
    throw refuse('limit', `must be a whole number from 1 to ${PAGE_MAX}`);
  }
  return { limit: Number(limit), after, before };
}

function indexOf(entries: readonly ModelEntry[], param: string, id: string): number {
  const index = entries.findIndex((entry) => entry.id === id);
  if (index < 0) throw refuse(param, 'must be the id of a model in this list');
  return index;
}

function pageOf(entries: readonly ModelEntry[], { limit, after, before }: PageRequest): Page {
  if (before !== undefined) {
    const end = indexOf(entries, 'before_id', before);
    const start = Math.max(0, end - limit);
    return { data: entries.slice(start, end), has_more: start > 0 };
  }
  const start = after === undefined ? 0 : indexOf(entries, 'after_id', after) + 1;
  return { data: entries.slice(start, start + limit), has_more: start + limit < entries.length };
}

export default defineStage({
  name: 'list-models',
  version: 1,
  summary: 'Answers with the models the caller may use.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'No options', yaml: '- stage: list-models' }],
  reads: ['principal.email', 'principal.groups'],
  readsIfSet: ['principal.token.group'],
  raises: ['invalid_request'],
  needs: ['respond'],
  terminal: true,
  create(_options, { models }) {
    const all = models.all.map((model) => ({ model, entry: describe(model) }));
    return {
      request(ctx) {
        const caller: ModelCaller = {
          email: ctx.get('principal.email'),
          groups: ctx.get('principal.groups'),
          token_group: ctx.get('principal.token.group'),
        };
        const usable = all.filter(({ model }) => models.refusal(caller, model) === undefined);
        const entries = usable.map(({ entry }) => entry);
        const { data, has_more } = pageOf(entries, readQuery(ctx.url));
        return answerJson(200, {
          object: 'list',
          data,
          has_more,
          first_id: data[0]?.id ?? null,
          last_id: data.at(-1)?.id ?? null,
        });
      },
    };
  },
});
