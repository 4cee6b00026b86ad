import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import type { Clock, Log, Timer } from '../../../base/contract/services.ts';
import { hasPrice, nameOf, plainName } from '../../budget/index.ts';
import { type FetchOptions, fetchModelList, type ModelList, type ModelListEntry } from './ask-list.ts';

export interface ModelLists {
  /** Whether an upstream's list has a model by its id, with or without its date; `undefined` while there is no list. */
  has(upstream: string, id: string): boolean | undefined;
  /** The ids on an upstream's list that have a price in the catalogue; `undefined` while there is no list. */
  ids(upstream: string): readonly string[] | undefined;
  /** The entry of a model in an upstream's list, by its id with or without its date. */
  entry(upstream: string, id: string): ModelListEntry | undefined;
  version(): number;
}

/** Without lists: the catalogue alone decides. */
export const NO_LISTS: ModelLists = {
  has: () => undefined,
  ids: () => undefined,
  entry: () => undefined,
  version: () => 0,
};

export interface OpenModelLists extends ModelLists {
  /** Fetches the lists of a configuration now and periodically; none if gateway.yaml lists its models. */
  use(config: GatewayConfig, secret: FetchOptions['secret']): void;
  attempted(): Promise<void>;
  close(): void;
}

const FETCH_SECONDS = 10;
/** Interval between fetches, and after a failed one. */
const AGAIN_MS = 10 * 60_000;
const SOON_MS = 60_000;
const NAMED_MAX = 20;
const TURN = 50;

interface List {
  readonly ids: ReadonlySet<string>;
  readonly priced: readonly string[];
  readonly entries: ReadonlyMap<string, ModelListEntry>;
  /** By catalogue name and id without a date. */
  readonly by_name: ReadonlyMap<string, ModelListEntry | undefined>;
}

interface Followed {
  readonly upstream: UpstreamConfig;
  list: List | undefined;
  why: string | undefined;
  timer?: Timer;
}

/** Opens the lists; `use` starts the fetches. */
export function openModelLists({ clock, log }: { readonly clock: Clock; readonly log: Log }): OpenModelLists {
  const followed = new Map<string, Followed>();
  let version = 0;
  let round: AbortController | undefined;
  let first: Promise<unknown> = Promise.resolve();

  async function follow(entry: Followed, options: FetchOptions & { readonly signal: AbortSignal }) {
    const { signal } = options;
    const fetched = await fetchModelList(entry.upstream, options);
    if (signal.aborted) return;
    if ('why' in fetched) noteFailure(entry, fetched.why);
    else await noteList(entry, fetched, signal);
    if (signal.aborted) return;
    entry.timer = clock.after('why' in fetched ? SOON_MS : AGAIN_MS, () => void follow(entry, options));
    entry.timer.unref();
  }

  async function noteList(entry: Followed, fetched: ModelList, signal: AbortSignal): Promise<void> {
    const old = entry.list;
    if (old === undefined || !isSameList(old, fetched)) {
      const list = await learn(entry.upstream, fetched);
      if (signal.aborted) return;
      entry.list = list;
      version += 1;
      log.info({ upstream: entry.upstream.name, ...changeOf(old, list) }, CHANGED);
    }
    entry.why = undefined;
  }

  function noteFailure(entry: Followed, why: string): void {
    if (why === entry.why) return;
    entry.why = why;
    log.warn({ upstream: entry.upstream.name, why }, entry.list === undefined ? NOT_READ : KEPT);
  }

  function stop(): void {
    round?.abort(new Error('the configuration has changed'));
    for (const { timer } of followed.values()) timer?.close();
  }

  return {
    has(upstream, id) {
      const found = followed.get(upstream);
      if (found?.list === undefined) return undefined;
      return found.list.ids.has(id) || found.list.by_name.has(nameKey(id, found.upstream));
    },
    ids: (upstream) => followed.get(upstream)?.list?.priced,
    entry(upstream, id) {
      const found = followed.get(upstream);
      return found?.list?.entries.get(id) ?? found?.list?.by_name.get(nameKey(id, found.upstream));
    },
    version: () => version,
    use(config, secret) {
      stop();
      round = new AbortController();
      const wanted = config.from_model_lists ? config.upstreams : [];
      const before = new Map(followed);
      followed.clear();
      version += 1;
      for (const upstream of wanted) {
        const old = before.get(upstream.name);
        const { list, why } = old !== undefined && isSameServer(old.upstream, upstream) ? old : {};
        followed.set(upstream.name, { upstream, list, why });
      }
      const options = { server: config.server, secret, seconds: FETCH_SECONDS, signal: round.signal };
      first = Promise.allSettled([...followed.values()].map((entry) => follow(entry, options)));
    },
    async attempted() {
      await first;
    },
    close: stop,
  };
}

const HOW_TO_SERVE =
  'to serve them, list all models to serve under `models`, these with their price: models: [{ id: ..., pricing: { input: ..., output: ... } }]';
const CHANGED = 'the listed models of an upstream have changed; models without a catalogue price are ignored';
const NOT_READ = 'the upstream does not list its models: the gateway serves those of the price catalogue';
const KEPT = 'could not fetch the model list of an upstream: the last one stays in force';

const SERVER = ['base_url', 'api_key_env', 'auth_token_env', 'append_v1', 'headers', 'query'] as const;

function isSameServer(one: UpstreamConfig, other: UpstreamConfig): boolean {
  return SERVER.every((key) => isDeepStrictEqual(one[key], other[key]));
}

function isSameList(known: List, { ids, entries }: ModelList): boolean {
  return (
    known.ids.size === ids.length && ids.every((id) => known.ids.has(id)) && isDeepStrictEqual(known.entries, entries)
  );
}

async function learn(upstream: UpstreamConfig, { ids, entries }: ModelList): Promise<List> {
  const by_name = new Map<string, ModelListEntry | undefined>();
  const priced: string[] = [];
  for (const [index, id] of ids.entries()) {
    if (index % TURN === TURN - 1) await new Promise(setImmediate);
    if (!hasPrice(id, upstream.base_url)) continue;
    priced.push(id);
    const name = nameKey(id, upstream);
    by_name.set(name, entries.get(id) ?? by_name.get(name));
  }
  return { ids: new Set(ids), priced, entries, by_name };
}

/**
 * The name of a model without the date. Callers choose ids, and the catalogue knows models by their beginning and in any case:
 * another spelling must not slip past a rule, nor cost what another model does. Unknown ids begin with a blank.
 */
function nameKey(id: string, { base_url }: UpstreamConfig): string {
  return `${nameOf(id, base_url) ?? ''} ${plainName(id)}`;
}

function changeOf(old: List | undefined, { ids, priced }: List): object {
  const known = new Set(priced);
  const unknown = [...ids].filter((id) => !known.has(id));
  const added = priced.filter((id) => !old?.ids.has(id));
  const removed = [...(old?.ids ?? [])].filter((id) => !ids.has(id));
  return {
    models: priced.length,
    added: added.slice(0, NAMED_MAX),
    ...(removed.length > 0 && { removed: removed.slice(0, NAMED_MAX) }),
    ...(unknown.length > 0 && {
      without_price: unknown.length,
      not_served: unknown.slice(0, NAMED_MAX),
      help: HOW_TO_SERVE,
    }),
  };
}
