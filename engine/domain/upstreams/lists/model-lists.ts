import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import type { Clock, Log, Timer } from '../../../base/contract/services.ts';
import { hasPrice, nameOf, plainName } from '../../budget/index.ts';
import { type AskedList, type Asking, askForList, type ToldOfModel } from './ask-list.ts';

export interface ModelLists {
  /** Whether an upstream's list has a model by this id, or by one that differs in its date alone; `undefined` while there is no list. */
  has(upstream: string, id: string): boolean | undefined;
  /** The ids on an upstream's list that the catalogue has a price for; `undefined` while there is no list. */
  ids(upstream: string): readonly string[] | undefined;
  /** What an upstream's list says of a model, by this id or by one that differs in its date alone. */
  told(upstream: string, id: string): ToldOfModel | undefined;
  /** Another number whenever a list changes. */
  version(): number;
}

/** Where nobody asks: the catalogue alone decides. */
export const NO_LISTS: ModelLists = {
  has: () => undefined,
  ids: () => undefined,
  told: () => undefined,
  version: () => 0,
};

export interface OpenModelLists extends ModelLists {
  /** Asks the upstreams of a configuration at once, and again from time to time; nobody where it names its models itself. */
  use(config: GatewayConfig, secret: Asking['secret']): void;
  attempted(): Promise<void>;
  close(): void;
}

const ANSWER_SECONDS = 10;
/** When a list is asked for again, and when where there was none. */
const AGAIN_MS = 10 * 60_000;
const SOON_MS = 60_000;
const TOLD_MAX = 20;
/** How many ids are looked up before other work has its turn. */
const TURN = 50;

interface List {
  readonly ids: ReadonlySet<string>;
  readonly priced: readonly string[];
  /** What the catalogue calls those, with their ids without a date. */
  readonly names: ReadonlySet<string>;
  readonly told: ReadonlyMap<string, ToldOfModel>;
  readonly told_of_names: ReadonlyMap<string, ToldOfModel>;
}

type ToldList = Exclude<AskedList, { readonly why: string }>;

interface Asked {
  readonly upstream: UpstreamConfig;
  list: List | undefined;
  why: string | undefined;
}

/** Opens the lists; nobody is asked before `use`. */
export function openModelLists({ clock, log }: { readonly clock: Clock; readonly log: Log }): OpenModelLists {
  const asked = new Map<string, Asked>();
  let version = 0;
  let round: AbortController | undefined;
  let first: Promise<unknown> = Promise.resolve();
  const timers = new Set<Timer>();

  async function ask(entry: Asked, asking: Asking & { readonly signal: AbortSignal }) {
    const { signal } = asking;
    const answer = await askForList(entry.upstream, asking);
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

  async function noteList(entry: Asked, answer: ToldList, signal: AbortSignal): Promise<void> {
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

  /** Told once, and not whenever it is asked again. */
  function noteFailure(entry: Asked, why: string, signal: AbortSignal): void {
    if (signal.aborted || why === entry.why) return;
    entry.why = why;
    log.warn({ upstream: entry.upstream.name, why }, entry.list === undefined ? NOT_READ : KEPT);
  }

  function stop(): void {
    round?.abort(new Error('the configuration is another one'));
    for (const timer of timers) timer.close();
    timers.clear();
  }

  return {
    has(upstream, id) {
      const found = asked.get(upstream);
      if (found?.list === undefined) return undefined;
      if (found.list.ids.has(id)) return true;
      const name = nameOf(id, found.upstream.base_url);
      return name !== undefined && found.list.names.has(nameKey(name, id));
    },
    ids(upstream) {
      return asked.get(upstream)?.list?.priced;
    },
    told(upstream, id) {
      const found = asked.get(upstream);
      if (found?.list === undefined) return undefined;
      const { told, told_of_names } = found.list;
      const name = nameOf(id, found.upstream.base_url);
      return told.get(id) ?? (name === undefined ? undefined : told_of_names.get(nameKey(name, id)));
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
  'to serve them, write a section `models` with every model that is to be served, these with their price: models: [{ id: ..., pricing: { input: ..., output: ... } }]';
const CHANGED =
  'the models of an upstream are others than before: those on its list that the catalogue of prices knows';
const NOT_READ = 'the upstream tells no list of its models: those that the catalogue of prices knows are served';
const KEPT = 'the upstream tells no list of its models now: the one it told before stays in force';

/** Whether what it tells is told to the same caller by the same server. */
function isSameServer(one: UpstreamConfig, other: UpstreamConfig): boolean {
  return (
    one.base_url === other.base_url &&
    one.api_key_env === other.api_key_env &&
    one.auth_token_env === other.auth_token_env &&
    one.append_v1 === other.append_v1 &&
    isDeepStrictEqual([one.headers, one.query], [other.headers, other.query])
  );
}

function isSameList(known: List, { ids, told }: ToldList): boolean {
  return known.ids.size === ids.length && ids.every((id) => known.ids.has(id)) && isDeepStrictEqual(known.told, told);
}

async function learn({ base_url }: UpstreamConfig, { ids, told }: ToldList): Promise<List> {
  const names = new Set<string>();
  const told_of_names = new Map<string, ToldOfModel>();
  const priced: string[] = [];
  for (const [index, id] of ids.entries()) {
    if (index % TURN === TURN - 1) await new Promise(setImmediate);
    if (!hasPrice(id, base_url)) continue;
    priced.push(id);
    const name = nameKey(nameOf(id, base_url)!, id);
    names.add(name);
    const said = told.get(id);
    if (said !== undefined) told_of_names.set(name, said);
  }
  return { ids: new Set(ids), priced, names, told, told_of_names };
}

/**
 * The name of a model, whatever the date in its id. Callers choose ids, and the catalogue knows models by their beginning and in any
 * case: another spelling must not slip past a rule about models, nor cost what some other model does.
 */
function nameKey(name: string, id: string): string {
  return `${name} ${plainName(id)}`;
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
