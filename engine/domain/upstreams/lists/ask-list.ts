import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayConfig, ModelConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import { exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import { configuredProxyRoute } from '../../../base/kit/net/proxy-route.ts';
import { isPrintableLine } from '../../../base/kit/text/printable.ts';
import { describeTranslated, fixedHeaders, headerPrefixes, upstreamCredential, upstreamPaths } from '../headers.ts';
import { UPSTREAM_TYPES } from '../types/index.ts';

const PAGE_BYTES_MAX = 4 * 1024 * 1024;
const PAGES_MAX = 20;
/** Bound on the models of one upstream; a longer list is an error. */
export const LISTED_MAX = 2000;

/** Ids of models, and the entries of those with properties. */
export interface ModelList {
  readonly ids: readonly string[];
  readonly entries: ReadonlyMap<string, ModelListEntry>;
}

/** A model list with unique ids, or the reason of a failure. */
export type FetchedList = ModelList | { readonly why: string };

export interface FetchOptions {
  readonly server: Pick<GatewayConfig['server'], 'profile'>;
  secret(variable: string): string;
  readonly seconds: number;
  readonly signal?: AbortSignal;
}

/** Reads the list of models of an upstream. Follows no redirect. Never rejects: `why` has the reason. */
export async function fetchModelList(upstream: UpstreamConfig, options: FetchOptions): Promise<FetchedList> {
  const { seconds } = options;
  const deadline = performance.now() + seconds * 1000;
  const ids = new Set<string>();
  const entries = new Map<string, ModelListEntry>();
  let after: string | undefined;
  try {
    const headers = listHeaders(upstream, options);
    const { proxy } = configuredProxyRoute(upstream.proxy, options.secret);
    for (let pages = 0; pages < PAGES_MAX; pages++) {
      const left = (deadline - performance.now()) / 1000;
      if (left <= 0) return { why: `no response within ${seconds} seconds` };
      const page = await fetchPage(urlOf(upstream, after), headers, { ...options, seconds: left, proxy });
      if (typeof page === 'string') return { why: page };
      const before = ids.size;
      for (const id of page.ids) ids.add(id);
      for (const [id, entry] of page.entries) entries.set(id, entry);
      if (ids.size > LISTED_MAX) return { why: `its list has more than ${LISTED_MAX} models` };
      after = page.after;
      if (after === undefined) return ids.size === 0 ? { why: 'its list is empty' } : { ids: [...ids], entries };
      if (ids.size === before) return { why: 'its list never ends' };
    }
    return { why: `its list has more than ${PAGES_MAX} pages` };
  } catch (error) {
    return { why: formatNetworkError(error, seconds) };
  }
}

function urlOf(upstream: UpstreamConfig, after: string | undefined): string {
  const { models } = UPSTREAM_TYPES[upstream.type];
  const query = new URLSearchParams(models.query);
  if (after !== undefined) query.set(models.after, after);
  const path = query.size === 0 ? models.path : `${models.path}?${query}`;
  return new URL(upstreamPaths(upstream)(path), upstream.base_url).href;
}

/** Headers of a request for the list of models. */
export function listHeaders(
  upstream: UpstreamConfig,
  { server, secret }: Pick<FetchOptions, 'server'> & { secret(variable: string): string | undefined },
): Record<string, string> {
  const headers: IncomingHttpHeaders = {};
  const prefixes = headerPrefixes(upstream.profile, server.profile);
  describeTranslated(headers, { protocol: upstream.protocols[0]!, stream: false, prefixes });
  delete headers['content-type'];
  return {
    ...(headers as Record<string, string>),
    'accept-encoding': 'identity',
    ...upstreamCredential(upstream, secret),
    ...fixedHeaders(upstream, (variable) => secret(variable) ?? ''),
  };
}

async function fetchPage(
  url: string,
  headers: Record<string, string>,
  { seconds, signal, proxy }: FetchOptions & { readonly proxy: URL | undefined },
) {
  const page = await exchange(url, { headers, seconds, bytes_max: PAGE_BYTES_MAX, proxy, ...(signal && { signal }) });
  const { status, ending } = page;
  if (status >= 300 && status < 400) return `it redirects (status ${status}), and redirects are not followed`;
  if (status !== 200) return `it returns status ${status}`;
  if (ending === 'too_large') return `its list is larger than ${PAGE_BYTES_MAX / 1024 / 1024} MiB`;
  if (ending === 'too_late') return 'its list took too long';
  if (ending === 'cut') return 'its list is cut off';
  return readPage(page.body);
}

/** Longest id of a model, in characters, as in gateway.yaml. */
const ID_CHARS_MAX = 200;

/** Prefix of ids in one provider's lists; requests omit it. */
const RESOURCE = /^models\//;

const TOKENS_MAX = 10_000_000;

/** Properties of a listed model that translated requests use; lists have neither price nor context window. */
export interface ModelListEntry {
  readonly max_tokens?: number;
  readonly thinking?: ModelConfig['supports']['thinking'];
}

/** Whether a text can be the id of a model: short, printable and one word. */
export function isModelId(text: unknown): text is string {
  return (
    typeof text === 'string' && text !== '' && text.length <= ID_CHARS_MAX && !/\s/.test(text) && isPrintableLine(text)
  );
}

/** The valid ids on a page; a string is the reason of a failure. */
export function readPage(body: Buffer): (ModelList & { readonly after?: string }) | string {
  let page: unknown;
  try {
    page = JSON.parse(body.toString('utf8'));
  } catch {
    return 'its response is not JSON';
  }
  const { data, has_more, last_id } = (page ?? {}) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(data)) return 'its response is not a list of models';
  const listed = data.map(fieldsOf).filter((entry): entry is Entry => isModelId(entry.id));
  const named = listed.map((entry) => ({ ...entry, id: entry.id.replace(RESOURCE, '') }));
  const valid = named.filter(({ id }) => isModelId(id));
  const after = has_more === true ? (isModelId(last_id) ? last_id : listed.at(-1)?.id) : undefined;
  const entries = valid.map((fields) => [fields.id, entryIn(fields)] as const);
  return {
    ids: valid.map(({ id }) => id),
    entries: new Map(entries.filter(([, entry]) => Object.keys(entry).length > 0)),
    ...(after !== undefined && { after }),
  };
}

type Fields = Readonly<Record<string, unknown>>;
type Entry = Fields & { readonly id: string };

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function entryIn({ max_tokens, capabilities }: Entry): ModelListEntry {
  const is_length = Number.isInteger(max_tokens) && Number(max_tokens) >= 1 && Number(max_tokens) <= TOKENS_MAX;
  const thinking = thinkingIn(fieldsOf(fieldsOf(capabilities).thinking));
  return { ...(is_length && { max_tokens: Number(max_tokens) }), ...(thinking !== undefined && { thinking }) };
}

function thinkingIn({ supported, types }: Fields): ModelListEntry['thinking'] {
  if (supported === false) return 'none';
  const takes = (type: string) => fieldsOf(fieldsOf(types)[type]).supported === true;
  if (takes('adaptive')) return 'adaptive';
  return takes('enabled') ? 'budget' : undefined;
}
