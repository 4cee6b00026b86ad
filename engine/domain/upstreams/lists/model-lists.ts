import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import type { Clock, Log, Timer } from '../../../base/contract/services.ts';
import { hasPrice, nameOf, plainName } from '../../budget/index.ts';
import { type Asking, type FetchedList, fetchModelList, type ModelListEntry } from './ask-list.ts';

export interface ModelLists {
  /** Whether an upstream's list has a model by its id, with or without its date; `undefined` while there is no list. */
  has(upstream: string, id: string): boolean | undefined;
  /** The ids on an upstream's list that have a price in the catalogue; `undefined` while there is no list. */
  ids(upstream: string): readonly string[] | undefined;
  /** The entry of a model in an upstream's list, by its id with or without its date. */
  told(upstream: string, id: string): ModelListEntry | undefined;
  /** Changes with each list. */
  version(): number;
}

/** Without lists: the catalogue alone decides. */
export const NO_LISTS: ModelLists = {
  has: () => undefined,
  ids: () => undefined,
  told: () => undefined,
  version: () => 0,
};

export interface OpenModelLists extends ModelLists {
  /** Fetches the lists of a configuration now and periodically; none if gateway.yaml lists its models. */
  use(config: GatewayConfig, secret: Asking['secret']): void;
  attempted(): Promise<void>;
  close(): void;
}

const ANSWER_SECONDS = 10;
/** Interval between fetches, and after a failed one. */
const AGAIN_MS = 10 * 60_000;
const SOON_MS = 60_000;
const TOLD_MAX = 20;
/** Number of ids looked up per turn of the event loop. */
const TURN = 50;

interface List {
  readonly ids: ReadonlySet<string>;
  readonly priced: readonly string[];
  /** Catalogue names of the listed models, with their ids without a date. */
  readonly names: ReadonlySet<string>;
  readonly told: ReadonlyMap<string, ModelListEntry>;
  readonly entries_of_names: ReadonlyMap<string, ModelListEntry>;
}

type ReadList = Exclude<FetchedList, { readonly why: string }>;

interface Asked {
  readonly upstream: UpstreamConfig;
  list: List | undefined;
  why: string | undefined;
}

/** Opens the lists; `use` starts the fetches. */
export function openModelLists({ clock, log }: { readonly clock: Clock; readonly log: Log }): OpenModelLists {
  const asked = new Map<string, Asked>();
  let version = 0;
  let round: AbortController | undefined;
  let first: Promise<unknown> = Promise.resolve();
  const timers = new Set<Timer>();

  async function ask(entry: Asked, asking: Asking & { readonly signal: AbortSignal }) {
    const { signal } = asking;
    const answer = await fetchModelList(entry.upstream, asking);
    if ('why' in answer) noteFailure(entry, answer.why, signal);
    else await noteList(entry, answer, signal);
    if (signal.aborted) return;
    const timer = clock.after('why' in answer ? SOON_MS : AGAIN_MS, () => {
      timers.delete(timer);
      void ask(entry, asking);
    });
    timer.unref();
    timers.add(timer);
  }

  async function noteList(entry: Asked, answer: ReadList, signal: AbortSignal): Promise<void> {
    const old = entry.list;
    if (old === undefined || !isSameList(old, answer)) {
      const list = await learn(entry.upstream, answer);
      if (signal.aborted) return;
      entry.list = list;
      version += 1;
      log.info({ upstream: entry.upstream.name, ...changeOf(old, list) }, CHANGED);
    }
    entry.why = undefined;
  }

  /** Logs a failure once, not at each fetch. */
  function noteFailure(entry: Asked, why: string, signal: AbortSignal): void {
    if (signal.aborted || why === entry.why) return;
    entry.why = why;
    log.warn({ upstream: entry.upstream.name, why }, entry.list === undefined ? NOT_READ : KEPT);
  }

  function stop(): void {
    round?.abort(new Error('the configuration has changed'));
    for (const timer of timers) timer.close();
    timers.clear();
  }

  return {
    has(upstream, id) {
      const found = asked.get(upstream);
      if (found?.list === undefined) return undefined;
      return found.list.ids.has(id) || found.list.names.has(nameKey(id, found.upstream));
    },
    ids: (upstream) => asked.get(upstream)?.list?.priced,
    told(upstream, id) {
      const found = asked.get(upstream);
      return found?.list?.told.get(id) ?? found?.list?.entries_of_names.get(nameKey(id, found.upstream));
    },
    version: () => version,
    use(config, secret) {
      stop();
      round = new AbortController();
      const wanted = config.from_model_lists ? config.upstreams : [];
      const before = new Map(asked);
      asked.clear();
      version += 1;
      for (const upstream of wanted) {
        const old = before.get(upstream.name);
        const is_same = old !== undefined && isSameServer(old.upstream, upstream);
        asked.set(upstream.name, {
          upstream,
          list: is_same ? old.list : undefined,
          why: is_same ? old.why : undefined,
        });
      }
      const asking = { server: config.server, secret, seconds: ANSWER_SECONDS, signal: round.signal };
      first = Promise.allSettled([...asked.values()].map((entry) => ask(entry, asking)));
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

function isSameServer(one: UpstreamConfig, other: UpstreamConfig): boolean {
  return (
    one.base_url === other.base_url &&
    one.api_key_env === other.api_key_env &&
    one.auth_token_env === other.auth_token_env &&
    one.append_v1 === other.append_v1 &&
    isDeepStrictEqual([one.headers, one.query], [other.headers, other.query])
  );
}

function isSameList(known: List, { ids, told }: ReadList): boolean {
  return known.ids.size === ids.length && ids.every((id) => known.ids.has(id)) && isDeepStrictEqual(known.told, told);
}

async function learn(upstream: UpstreamConfig, { ids, told }: ReadList): Promise<List> {
  const names = new Set<string>();
  const entries_of_names = new Map<string, ModelListEntry>();
  const priced: string[] = [];
  for (const [index, id] of ids.entries()) {
    if (index % TURN === TURN - 1) await new Promise(setImmediate);
    if (!hasPrice(id, upstream.base_url)) continue;
    priced.push(id);
    const name = nameKey(id, upstream);
    names.add(name);
    const said = told.get(id);
    if (said !== undefined) entries_of_names.set(name, said);
  }
  return { ids: new Set(ids), priced, names, told, entries_of_names };
}

/**
 * The name of a model, whatever the date in its id. Callers choose ids, and the catalogue knows models by their beginning and in any
 * case: another spelling must not slip past a rule about models, nor cost what some other model does. Ids that the catalogue does
 * not know begin with a blank, which no name does.
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
    added: added.slice(0, TOLD_MAX),
    ...(removed.length > 0 && { removed: removed.slice(0, TOLD_MAX) }),
    ...(unknown.length > 0 && {
      without_price: unknown.length,
      not_served: unknown.slice(0, TOLD_MAX),
      help: HOW_TO_SERVE,
    }),
  };
}
