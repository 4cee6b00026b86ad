import type { ModelConfig } from '../../contract/config.ts';
import { isPrintableLine } from '../../kit/text/printable.ts';

/** Longest id of a model, in characters, as in gateway.yaml. */
const ID_CHARS_MAX = 200;

/** What one provider writes before each id, and requests leave out. */
const RESOURCE = /^models\//;

/** More than any model says in one answer, in tokens. */
const TOKENS_MAX = 10_000_000;

/** What a list says of a model, as far as translated requests go by it: neither its price nor its window. */
export interface ToldOfModel {
  /** Its longest answer, in tokens. */
  readonly max_tokens?: number;
  /** How it is told to think. */
  readonly thinking?: ModelConfig['supports']['thinking'];
}

/** One page of a list of models. */
export interface ListPage {
  readonly ids: readonly string[];
  /** What is said of them, by id, where anything is. */
  readonly told: ReadonlyMap<string, ToldOfModel>;
  /** Where the next page begins; absent on the last one. */
  readonly after?: string;
}

/** Whether a text can be the id of a model that somebody else names: short, printable and one word. */
export function isModelId(text: unknown): text is string {
  return (
    typeof text === 'string' && text !== '' && text.length <= ID_CHARS_MAX && !/\s/.test(text) && isPrintableLine(text)
  );
}

/** The ids on a page, without what can be none; a text says why it is no page of a list. */
export function readPage(body: Buffer): ListPage | string {
  let page: unknown;
  try {
    page = JSON.parse(body.toString('utf8'));
  } catch {
    return 'its answer is not JSON';
  }
  const { data, has_more, last_id } = (page ?? {}) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(data)) return 'its answer is not a list of models';
  const listed = data.map(fieldsOf).filter((entry): entry is Entry => isModelId(entry.id));
  const named = listed.map((entry) => ({ ...entry, id: entry.id.replace(RESOURCE, '') }));
  const entries = named.filter(({ id }) => isModelId(id));
  const after = has_more === true ? (isModelId(last_id) ? last_id : listed.at(-1)?.id) : undefined;
  const told = entries.map((entry) => [entry.id, toldIn(entry)] as const);
  return {
    ids: entries.map(({ id }) => id),
    told: new Map(told.filter(([, said]) => Object.keys(said).length > 0)),
    ...(after !== undefined && { after }),
  };
}

type Fields = Readonly<Record<string, unknown>>;
type Entry = Fields & { readonly id: string };

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

/** What the lists of Messages providers say of a model. */
function toldIn({ max_tokens, capabilities }: Entry): ToldOfModel {
  const is_length = Number.isInteger(max_tokens) && Number(max_tokens) >= 1 && Number(max_tokens) <= TOKENS_MAX;
  const thinking = thinkingIn(fieldsOf(fieldsOf(capabilities).thinking));
  return { ...(is_length && { max_tokens: Number(max_tokens) }), ...(thinking !== undefined && { thinking }) };
}

function thinkingIn({ supported, types }: Fields): ToldOfModel['thinking'] {
  if (supported === false) return 'none';
  const takes = (type: string) => fieldsOf(fieldsOf(types)[type]).supported === true;
  if (takes('adaptive')) return 'adaptive';
  return takes('enabled') ? 'budget' : undefined;
}
