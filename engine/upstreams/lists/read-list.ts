import { isPrintableLine } from '../../kit/text/printable.ts';

/** Longest id of a model, in characters, as in gateway.yaml. */
const ID_CHARS_MAX = 200;

/** What one provider writes before each id, and requests leave out. */
const RESOURCE = /^models\//;

/** One page of a list of models. */
export interface ListPage {
  readonly ids: readonly string[];
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
  const listed = data.map((entry: unknown) => (entry as { readonly id?: unknown } | null)?.id).filter(isModelId);
  const ids = listed.map((id) => id.replace(RESOURCE, '')).filter(isModelId);
  const after = has_more === true ? (isModelId(last_id) ? last_id : listed.at(-1)) : undefined;
  return { ids, ...(after !== undefined && { after }) };
}
