import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayConfig, ModelConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import { exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import { configuredWay } from '../../../base/kit/net/way.ts';
import { isPrintableLine } from '../../../base/kit/text/printable.ts';
import { describeTranslated, fixedHeaders, messagesHeaders, upstreamCredential, upstreamPaths } from '../headers.ts';

const PAGE_BYTES_MAX = 4 * 1024 * 1024;
const PAGES_MAX = 20;
/** The most models of one upstream; a list with more is not believed. */
export const LISTED_MAX = 2000;

/** What came of asking for a list: the ids without repetition and what is said of them, or why there is none. */
export type AskedList =
  | { readonly ids: readonly string[]; readonly told: ReadonlyMap<string, ToldOfModel> }
  | { readonly why: string };

export interface Asking {
  readonly server: Pick<GatewayConfig['server'], 'profile'>;
  secret(variable: string): string;
  readonly seconds: number;
  readonly signal?: AbortSignal;
}

/**
 * Asks an upstream for the models that it has, with its credential and as its own clients do. Follows no redirect. Never
 * rejects: an upstream without a list, or with one that cannot be believed, is told in words.
 */
export async function askForList(upstream: UpstreamConfig, asking: Asking): Promise<AskedList> {
  const { seconds } = asking;
  const deadline = performance.now() + seconds * 1000;
  const ids = new Set<string>();
  const told = new Map<string, ToldOfModel>();
  let after: string | undefined;
  try {
    const headers = headersFor(upstream, asking);
    const { proxy } = configuredWay(upstream.proxy, asking.secret);
    for (let pages = 0; pages < PAGES_MAX; pages++) {
      const left = (deadline - performance.now()) / 1000;
      if (left <= 0) return { why: `no answer within ${seconds} seconds` };
      const page = await askForPage(urlOf(upstream, after), headers, { ...asking, seconds: left, proxy });
      if (typeof page === 'string') return { why: page };
      const before = ids.size;
      for (const id of page.ids) ids.add(id);
      for (const [id, said] of page.told) told.set(id, said);
      if (ids.size > LISTED_MAX) return { why: `its list has more than ${LISTED_MAX} models` };
      after = page.after;
      if (after === undefined) return ids.size === 0 ? { why: 'its list is empty' } : { ids: [...ids], told };
      if (ids.size === before) return { why: 'its list has pages without an end' };
    }
    return { why: `its list has more than ${PAGES_MAX} pages` };
  } catch (error) {
    return { why: formatNetworkError(error, seconds) };
  }
}

function urlOf(upstream: UpstreamConfig, after: string | undefined): string {
  const query = new URLSearchParams({
    // What others make of a parameter that they don't know is not known.
    ...(upstream.type === 'vendor' && { limit: '1000' }),
    ...(after !== undefined && { after_id: after }),
  }).toString();
  const path = query === '' ? '/v1/models' : `/v1/models?${query}`;
  return new URL(upstreamPaths(upstream)(path), upstream.base_url).href;
}

function headersFor(upstream: UpstreamConfig, { server, secret }: Asking): Record<string, string> {
  const headers: IncomingHttpHeaders = {};
  const messages = messagesHeaders(upstream.profile, server.profile);
  describeTranslated(headers, { protocol: upstream.protocols[0]!, stream: false, messages });
  delete headers['content-type'];
  return {
    ...(headers as Record<string, string>),
    'accept-encoding': 'identity',
    ...upstreamCredential(upstream, secret),
    ...fixedHeaders(upstream, secret),
  };
}

async function askForPage(
  url: string,
  headers: Record<string, string>,
  { seconds, signal, proxy }: Asking & { readonly proxy: URL | undefined },
) {
  const answer = await exchange(url, { headers, seconds, bytes_max: PAGE_BYTES_MAX, proxy, ...(signal && { signal }) });
  const { status, ending } = answer;
  if (status >= 300 && status < 400) return `it redirects (status ${status}), and redirects are not followed`;
  if (status !== 200) return `it answers with status ${status}`;
  if (ending === 'too_large') return `its list is larger than ${PAGE_BYTES_MAX / 1024 / 1024} MiB`;
  if (ending === 'too_late') return 'its list is not complete in time';
  if (ending === 'cut') return 'its list is cut off';
  return readPage(answer.body);
}

/** Longest id of a model, in characters, as in gateway.yaml. */
const ID_CHARS_MAX = 200;

/** What one provider writes before each id, and requests leave out. */
const RESOURCE = /^models\//;

/** More than any model says in one answer, in tokens. */
const TOKENS_MAX = 10_000_000;

/** What a list says of a model, as far as translated requests go by it: neither its price nor its window. */
export interface ToldOfModel {
  readonly max_tokens?: number;
  readonly thinking?: ModelConfig['supports']['thinking'];
}

export interface ListPage {
  readonly ids: readonly string[];
  readonly told: ReadonlyMap<string, ToldOfModel>;
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
