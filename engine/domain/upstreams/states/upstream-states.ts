import { LRUCache } from 'lru-cache';
import type { UpstreamConfig } from '../../../base/contract/config.ts';
import type {
  AttemptEffect,
  Closed,
  Drained,
  Seen,
  Trial,
  UpstreamState,
  UpstreamStates,
  Witness,
} from '../../../base/contract/forwarding.ts';
import type { Clock, HealthPart, Log } from '../../../base/contract/services.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { secretPlace } from '../../../base/kit/secret-names.ts';
import {
  type Breaker,
  type BreakerSurroundings,
  type CredentialBreaker,
  createBreaker,
  createCredentialBreaker,
} from './breaker.ts';

/** The states of the upstreams of a process, which outlive its configurations. */
export interface LastingUpstreamStates extends UpstreamStates {
  /**
   * Takes the upstreams of a new configuration: what is gone is forgotten, and which models are missing.
   * @param renewed names of secrets that hold others than before: what is known of their upstreams is forgotten as well.
   */
  use(upstreams: readonly UpstreamConfig[], renewed?: ReadonlySet<string>): void;
  /** Takes the upstreams that are drained now, by name; also of upstreams that no configuration has yet. */
  setDrained(drained: ReadonlyMap<string, Drained>): void;
  /** Takes what another process saw. Nothing is believed of upstreams that are unknown here, nor for long. */
  heed(trouble: Trouble): void;
}

/** A model that was there so lately is not gone because one request names something else that is not. */
const WORKED_LATELY_MS = 30_000;
/** How often the log tells that an upstream is limited. */
const LIMITED_TOLD_MS = 60_000;
const MODEL_MISSING_MS = 300_000;
/** However long another process says that an upstream is in trouble; then it is tried here. */
const HEEDED_MS = 10_000;
/** However long another process says that an account is limited, which is true for all of them. */
const HEEDED_LIMIT_MS = 60_000;
/** Models of an upstream of which others are believed although nobody asked for them here: there would be no end of them. */
const HEEDED_MODELS_MAX = 200;

interface Shown {
  readonly n: number;
  readonly effect: AttemptEffect;
  readonly detail: string | undefined;
  readonly witness: Witness | undefined;
}

const NONE: ReadonlySet<string> = new Set();

const NO_TRIAL: Trial = { tell() {}, leave() {} };

/**
 * Creates what is known of upstreams: at first nothing.
 * @param options.random from 0 to 1, for how long breakers stay open.
 * @param options.onTrouble is told what keeps requests from an upstream, so that other processes can be.
 * @param options.onRecovery is told that it serves again.
 */
export function createUpstreamStates(options: {
  readonly upstreams: readonly UpstreamConfig[];
  readonly clock: Clock;
  readonly log: Log;
  readonly random?: () => number;
  readonly onTrouble?: (trouble: Trouble) => void;
  readonly onRecovery?: (subject: TroubleSubject) => void;
}): LastingUpstreamStates {
  const { clock, log, random = Math.random, onTrouble = () => {}, onRecovery = () => {} } = options;
  const entries = new Map<string, UpstreamEntry>();
  const credentials = new Map<string, CredentialBreaker>();
  const homes = createHomes();
  let drained: ReadonlyMap<string, Drained> = new Map();
  let trials = 0;
  let heeding = false;

  const now = () => clock.monotonic();
  const epoch = (time: number) => Math.round(clock.now() + (time - now()));

  function announce(trouble: Trouble, is_news: boolean): void {
    if (is_news) logTrouble(log, trouble, entries.get(trouble.upstream)?.mode === 'enforce');
    if (!heeding) onTrouble(trouble);
  }

  function surroundings(about: TroubleSubject): BreakerSurroundings {
    return {
      latest: () => trials,
      random,
      onOpen(until, last, failing_ms) {
        announce({ ...about, until: epoch(until), ...(last !== undefined && { last }), failing_ms }, true);
      },
      onReopen: (until, failing_ms) => announce({ ...about, until: epoch(until), failing_ms }, false),
      onClose(open_ms) {
        logRecovery(log, about, open_ms);
        onRecovery(about);
      },
    };
  }

  function credentialOf(upstream: UpstreamConfig): CredentialBreaker {
    const place = placeOf(upstream);
    const { name, api_key_env, auth_token_env } = upstream;
    const credential = api_key_env ?? auth_token_env;
    const known = credentials.get(place);
    if (known !== undefined) return known;
    const about = {
      kind: 'credential',
      upstream: name,
      ...(credential !== undefined && { credential: secretPlace(credential) }),
    } as const;
    const made = createCredentialBreaker(surroundings(about));
    credentials.set(place, made);
    return made;
  }

  function use(upstreams: readonly UpstreamConfig[], renewed: ReadonlySet<string> = NONE): void {
    const before = new Map(entries);
    const isRenewed = ({ api_key_env, auth_token_env }: UpstreamConfig) =>
      renewed.has(api_key_env ?? auth_token_env ?? '');
    // That the key before was refused says nothing of the new one.
    for (const upstream of upstreams.filter(isRenewed)) credentials.delete(placeOf(upstream));
    entries.clear();
    for (const upstream of upstreams) {
      const known = before.get(upstream.name);
      const stays = known?.place === placeOf(upstream) && !isRenewed(upstream);
      if (stays) known.use(upstream);
      entries.set(upstream.name, stays ? known : createUpstreamEntry(upstream, credentialOf(upstream), surroundings));
    }
    const places = new Set([...entries.values()].map(({ place }) => place));
    for (const place of credentials.keys()) if (!places.has(place)) credentials.delete(place);
    homes.keepOnly(entries);
  }

  function limit(
    entry: UpstreamEntry,
    model: ModelEntry,
    n: number,
    last?: string,
    retry_after_seconds?: number,
  ): void {
    const at = now();
    const until = model.limited.limit(n, at, last, retry_after_seconds);
    if (until === undefined) return;
    const about = { kind: 'limited', upstream: entry.name, upstream_model: model.upstream_model } as const;
    // A busy account can be limited and served in turn, many times a second.
    const is_news = at - model.limited_told_at >= LIMITED_TOLD_MS;
    if (is_news) model.limited_told_at = at;
    announce({ ...about, until: epoch(until), ...(last !== undefined && { last }) }, is_news);
  }

  /** Tells the breakers what a trial showed. Whatever was answered, there was a connection. */
  function learn(entry: UpstreamEntry, model: ModelEntry, { n, effect, detail, witness }: Shown): void {
    const at = now();
    const { connect, credential } = entry;
    if (effect === 'model_missing' && at - model.worked_at > WORKED_LATELY_MS) {
      model.missing_until = at + MODEL_MISSING_MS;
      model.missing_last = detail;
    }
    if (effect === 'success') {
      if (model.limited.succeed(n)) {
        onRecovery({ kind: 'limited', upstream: entry.name, upstream_model: model.upstream_model });
      }
      model.missing_until = 0;
      model.worked_at = at;
    }
    if (entry.mode === 'off') return;
    if (effect === 'unreachable') connect.fail(n, at, detail);
    else connect.succeed(n, at);
    if (effect === 'failure') model.breaker.fail(n, at, detail, witness);
    if (effect === 'success') {
      model.breaker.succeed(n, at);
      credential.succeed(n, at);
    }
    if (effect === 'credential' || effect === 'permission') credential.refuse(n, at, effect, detail);
  }

  use(options.upstreams);
  return {
    use,
    setDrained(next) {
      drained = next;
    },
    closed(upstream, upstream_model, by) {
      if (drained.has(upstream)) return { because: 'drained', until: undefined, last: undefined };
      const entry = entries.get(upstream);
      if (entry === undefined || isQuiet(entry, entry.models.get(upstream_model))) return undefined;
      const closed = whatCloses(entry, upstream_model, now(), by);
      return closed && { ...closed, until: epoch(closed.until!) };
    },
    begin(upstream, upstream_model, witness) {
      const entry = entries.get(upstream);
      if (entry === undefined) return NO_TRIAL;
      const model = entry.model(upstream_model);
      trials += 1;
      const n = trials;
      const tries = !isQuiet(entry, model);
      const watched = tries ? [entry.connect, entry.credential, model.breaker] : [];
      for (const breaker of watched) breaker.begin(n, now(), witness);
      entry.active += 1;
      let is_told = false;
      let is_there = true;
      const release = () => {
        for (const breaker of watched) breaker.release(n);
      };
      return {
        tell(effect, detail, retry_after_seconds) {
          if (is_told) return;
          is_told = true;
          if (effect === 'limited') limit(entry, model, n, detail, retry_after_seconds);
          if (effect !== 'neutral') learn(entry, model, { n, effect, detail, witness });
          release();
        },
        leave(answer, detail) {
          if (!is_there) return;
          is_there = false;
          entry.active -= 1;
          release();
          if (answer === undefined || entry.mode === 'off') return;
          if (answer === 'whole') model.breaker.complete();
          else model.breaker.breakOff(++trials, now(), detail, witness);
        },
      };
    },
    takeRetry(upstream) {
      const entry = entries.get(upstream);
      if (entry === undefined) return undefined;
      const { percent, min } = entry.retry_budget;
      if (entry.retries >= Math.max(min, Math.floor((entry.active * percent) / 100))) return undefined;
      entry.retries += 1;
      let is_taken = true;
      return () => {
        if (is_taken) entry.retries -= 1;
        is_taken = false;
      };
    },
    active: (upstream) => entries.get(upstream)?.active ?? 0,
    share(upstream, upstream_model) {
      const entry = entries.get(upstream);
      const model = entry?.models.get(upstream_model);
      if (entry?.mode !== 'enforce' || isQuiet(entry, model)) return 1;
      const at = now();
      return Math.min(entry.connect.share(at), model?.breaker.share(at) ?? 1);
    },
    home(session) {
      return homes.of(session, now());
    },
    settle(session, upstream, seconds) {
      if (entries.has(upstream)) homes.settle(session, upstream, now() + seconds * 1000);
    },
    list: () => [...entries.values()].flatMap((entry) => describeEntry(entry, drained.get(entry.name), now(), epoch)),
    heed(trouble) {
      const entry = entries.get(trouble.upstream);
      if (entry === undefined) return;
      heeding = true;
      try {
        heedTrouble(entry, trouble, trouble.until - clock.now(), now());
      } finally {
        heeding = false;
      }
    },
  };
}

function heedTrouble(entry: UpstreamEntry, trouble: Trouble, ms: number, now: number): void {
  const { kind, upstream_model, last, failing_ms = 0 } = trouble;
  const known = upstream_model === undefined ? undefined : entry.models.get(upstream_model);
  const has_room = upstream_model !== undefined && entry.models.size < HEEDED_MODELS_MAX;
  const model = known ?? (has_room ? entry.model(upstream_model) : undefined);
  if (kind === 'limited') model?.limited.limitUntil(now + Math.min(ms, HEEDED_LIMIT_MS), now, last);
  if (entry.mode === 'off') return;
  const seen = { until: now + Math.min(ms, HEEDED_MS), last, failing_ms };
  if (kind === 'open') model?.breaker.heed(seen, now);
  if (kind === 'unreachable') entry.connect.heed(seen, now);
  if (kind === 'credential') entry.credential.heed(seen, now);
}

export interface ModelEntry {
  readonly upstream_model: string;
  readonly breaker: Breaker;
  readonly limited: LimitedWindow;
  limited_told_at: number;
  /** It does not have the model, as it said itself. */
  missing_until: number;
  missing_last: string | undefined;
  worked_at: number;
}

/** Address and name of the credential, which have a breaker of their own. */
function placeOf({ base_url, api_key_env, auth_token_env }: UpstreamConfig): string {
  return `${new URL(base_url).href} ${api_key_env ?? auth_token_env ?? ''}`;
}

function createUpstreamEntry(
  upstream: UpstreamConfig,
  credential: CredentialBreaker,
  surroundings: (about: TroubleSubject) => BreakerSurroundings,
) {
  const { name } = upstream;
  let settings = upstream.breaker;
  const models = new Map<string, ModelEntry>();
  return {
    name,
    /** Where it is and with which credential: another place is another upstream, whatever its name. */
    place: placeOf(upstream),
    credential,
    connect: createBreaker(settings, surroundings({ kind: 'unreachable', upstream: name })),
    models,
    mode: settings.mode,
    retry_budget: upstream.retry_budget,
    active: 0,
    retries: 0,
    model(upstream_model: string): ModelEntry {
      let entry = models.get(upstream_model);
      if (entry === undefined) {
        const around = surroundings({ kind: 'open', upstream: name, upstream_model });
        const breaker = createBreaker(settings, around);
        const limited = createLimitedWindow(around.latest);
        entry = {
          upstream_model,
          breaker,
          limited,
          limited_told_at: Number.NEGATIVE_INFINITY,
          missing_until: 0,
          missing_last: undefined,
          worked_at: Number.NEGATIVE_INFINITY,
        };
        models.set(upstream_model, entry);
      }
      return entry;
    },
    use(next: UpstreamConfig): void {
      settings = next.breaker;
      this.mode = settings.mode;
      this.retry_budget = next.retry_budget;
      this.connect.use(settings);
      for (const model of models.values()) {
        model.breaker.use(settings);
        model.missing_until = 0;
      }
    },
  };
}

export type UpstreamEntry = ReturnType<typeof createUpstreamEntry>;

/** Whether all is as it should be, and has been for long: nearly always, and then not even the time has to be known. */
function isQuiet({ connect, credential }: UpstreamEntry, model: ModelEntry | undefined): boolean {
  if (!connect.is_quiet || !credential.is_quiet) return false;
  return model === undefined || (model.breaker.is_quiet && model.limited.is_quiet && model.missing_until === 0);
}

/**
 * What speaks against a request to an upstream at a time, the longest-lasting of it; times are those of the breakers.
 * @param seen_by whose request it is, and which, where that is known
 */
function whatCloses(
  entry: UpstreamEntry,
  upstream_model: string,
  now: number,
  seen_by: Seen | undefined,
): Closed | undefined {
  const { connect, credential, mode } = entry;
  const model = entry.models.get(upstream_model);
  let closed: Closed | undefined;
  const note = (found: Closed) => {
    if (found.until !== undefined && (closed === undefined || found.until > closed.until!)) closed = found;
  };
  if (mode === 'enforce') {
    note({ because: 'credential', until: credential.until(now), last: credential.last });
    note({ because: 'open', until: connect.until(now), last: connect.last });
    if (model !== undefined) {
      const { breaker } = model;
      note({ because: 'open', until: breaker.until(now), last: breaker.last });
      const own = seen_by && breaker.untilFor(seen_by, now);
      if (own) note({ because: 'open', until: own.until, last: breaker.last, alone: own.whose });
    }
  }
  if (model === undefined) return closed;
  note({ because: 'limited', until: model.limited.until(now), last: model.limited.last });
  if (model.missing_until > now)
    note({ because: 'model_missing', until: model.missing_until, last: model.missing_last });
  return closed;
}

const FIRST_MS = 1000;
const LAST_MS = 30_000;
/** However long an upstream asks for, it is asked again after this. */
const LONGEST_MS = 3_600_000;

type LimitedWindow = ReturnType<typeof createLimitedWindow>;

/**
 * The time in which an upstream has no room for the account of the gateway: not a failure, and nothing is retried by it. Without
 * a time told by the upstream it lasts 1 s, and doubles up to 30 s for as long as nothing is served.
 */
function createLimitedWindow(latest: () => number) {
  let ends = 0;
  let next_ms = FIRST_MS;
  /** Trials up to this one began before the limit was known. */
  let known_after = 0;
  let is_limited = false;
  let last: string | undefined;
  return {
    get is_quiet(): boolean {
      return !is_limited;
    },
    until: (now: number) => (is_limited && now < ends ? ends : undefined),
    /** Trial `n` got 429: until when, if nothing was known of a limit before. */
    limit(n: number, now: number, detail: string | undefined, retry_after_seconds: number | undefined) {
      const told_ms = retry_after_seconds === undefined ? undefined : Math.max(retry_after_seconds, 0) * 1000;
      // Fifty requests that were under way together tell one thing, not fifty.
      const is_news = !is_limited || n > known_after;
      if (told_ms === undefined && !is_news) return undefined;
      const first = !is_limited;
      ends = Math.max(ends, now + Math.min(told_ms ?? next_ms, LONGEST_MS));
      if (told_ms === undefined) next_ms = Math.min(next_ms * 2, LAST_MS);
      is_limited = true;
      last = detail;
      known_after = latest();
      return first ? ends : undefined;
    },
    limitUntil(until: number, now: number, why: string | undefined): void {
      if (until <= Math.max(now, ends)) return;
      ends = until;
      is_limited = true;
      last = why;
      known_after = latest();
    },
    /** Trial `n` was served: whether that ended it. */
    succeed(n: number): boolean {
      if (!is_limited || n <= known_after) return false;
      is_limited = false;
      ends = 0;
      next_ms = FIRST_MS;
      return true;
    },
    get last(): string | undefined {
      return last;
    },
  };
}

/** Some 10 MB when all are there. */
const HOMES_MAX = 50_000;

interface Home {
  readonly upstream: string;
  readonly until: number;
}

/** Where sessions are at home: the upstream that keeps their prompts. Of the sessions served last, `HOMES_MAX` at most. */
function createHomes() {
  const homes = new LRUCache<string, Home>(atMost(HOMES_MAX));
  return {
    /** `undefined` when nobody keeps anything of it any more. */
    of(session: string, now: number): string | undefined {
      const home = homes.get(session);
      return home !== undefined && now < home.until ? home.upstream : undefined;
    },
    settle: (session: string, upstream: string, until: number) => void homes.set(session, { upstream, until }),
    keepOnly(upstreams: { has(name: string): boolean }): void {
      for (const [session, { upstream }] of homes.entries()) if (!upstreams.has(upstream)) homes.delete(session);
    },
  };
}

type Told = Pick<UpstreamState, 'state' | 'until' | 'last'>;

type Epoch = (time: number) => number;

/** A line for the upstream, and one for each model that is not as it should be. */
function describeEntry(entry: UpstreamEntry, drained: Drained | undefined, now: number, epoch: Epoch): UpstreamState[] {
  const { name: upstream, active, models, mode } = entry;
  const shadow = mode === 'shadow' && { shadow: true as const };
  const whole: UpstreamState = {
    upstream,
    ...(drained === undefined ? wholeState(entry, now, epoch) : { state: 'drained' as const }),
    active,
    ...(drained !== undefined && { drained }),
    ...shadow,
  };
  const of_models = [...models.values()].flatMap((model): UpstreamState[] => {
    const told = modelState(model, now, epoch);
    return told === undefined ? [] : [{ upstream, upstream_model: model.upstream_model, ...told, ...shadow }];
  });
  return [whole, ...of_models];
}

function wholeState({ credential, connect }: UpstreamEntry, now: number, epoch: Epoch): Told {
  if (credential.phase(now) !== 'closed') return told('credential', credential.until(now), credential.last, epoch);
  const phase = connect.phase(now);
  return phase === 'closed' ? { state: 'closed' } : told(phase, connect.until(now), connect.last, epoch);
}

function modelState({ breaker, limited, ...model }: ModelEntry, now: number, epoch: Epoch): Told | undefined {
  const phase = breaker.phase(now);
  if (phase !== 'closed') return told(phase, breaker.until(now), breaker.last, epoch);
  const callers = breaker.callersRefused(now);
  if (callers > 0) {
    const whose = callers === 1 ? 'one caller' : `${callers} callers`;
    return told('closed', undefined, `${breaker.last}, for ${whose} alone`, epoch);
  }
  const limited_until = limited.until(now);
  if (limited_until !== undefined) return told('limited', limited_until, limited.last, epoch);
  if (model.missing_until > now) return told('model_missing', model.missing_until, model.missing_last, epoch);
  return undefined;
}

function told(state: Told['state'], until: number | undefined, last: string | undefined, epoch: Epoch): Told {
  return { state, ...(until !== undefined && { until: epoch(until) }), ...(last !== undefined && { last }) };
}

/** What keeps requests from an upstream for a while, as other processes are told it. */
export interface Trouble {
  readonly kind: 'open' | 'unreachable' | 'credential' | 'limited';
  readonly upstream: string;
  readonly upstream_model?: string;
  /** Name of the variable with the credential, where it is about that. */
  readonly credential?: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** For people, such as `status 529`. */
  readonly last?: string;
  /** For how long nothing had succeeded when it opened. */
  readonly failing_ms?: number;
}

export type TroubleSubject = Omit<Trouble, 'until' | 'last' | 'failing_ms'>;

const WHAT: Readonly<Record<Trouble['kind'], string>> = {
  open: 'an upstream fails for this model',
  unreachable: 'no connection can be made to an upstream',
  credential: 'an upstream refuses the credential of the gateway',
  limited: 'an upstream has no room for the account of the gateway (429)',
};

/** Says in the log that trouble began; once, until it is over. */
function logTrouble(log: Log, { kind, until, failing_ms: _, ...about }: Trouble, is_enforced: boolean): void {
  const fields = { ...about, until: new Date(until).toISOString() };
  const message =
    is_enforced || kind === 'limited'
      ? `${WHAT[kind]}; it is left out until it may be tried again`
      : `${WHAT[kind]}; it is used all the same (breaker.mode: shadow)`;
  if (kind === 'credential') log.error(fields, message);
  else if (kind === 'limited') log.info(fields, message);
  else log.warn(fields, message);
}

function logRecovery(log: Log, { kind, ...about }: TroubleSubject, open_ms: number): void {
  const message = kind === 'credential' ? 'an upstream takes the credential again' : 'an upstream serves again';
  log.info({ ...about, seconds: Math.round(open_ms / 1000) }, message);
}

/** From the one that says most about an upstream to what it should be. */
const WORST_FIRST: readonly UpstreamState['state'][] = [
  'drained',
  'credential',
  'open',
  'half_open',
  'limited',
  'model_missing',
  'closed',
];

const rank = ({ state }: UpstreamState) => WORST_FIRST.indexOf(state);

/** Of two equally bad ones the one that ends first, for then something is tried. */
function worse(a: UpstreamState, b: UpstreamState): UpstreamState {
  const by_state = rank(a) - rank(b);
  if (by_state !== 0) return by_state < 0 ? a : b;
  return (b.until ?? Number.POSITIVE_INFINITY) < (a.until ?? Number.POSITIVE_INFINITY) ? b : a;
}

/**
 * What anybody may know about the upstreams, by name: the worst that is known of each, until when (ISO 8601), and of how many
 * models where it is not the upstream as a whole; `mode` is told where breakers only tell. No host, no model, and no word of what failed.
 */
export function tellUpstreams(states: readonly UpstreamState[]): NonNullable<HealthPart['told']> {
  const by_name = Map.groupBy(states, ({ upstream }) => upstream);
  return Object.fromEntries([...by_name].map(([name, all]) => [name, tellOne(all)]));
}

function tellOne(states: readonly UpstreamState[]): Readonly<Record<string, string | number>> {
  const whole = states.filter(({ upstream_model, state }) => upstream_model === undefined && state !== 'closed');
  const { state, until, upstream_model, shadow } = (whole.length > 0 ? whole : states).reduce(worse);
  const models = states.filter((other) => other.upstream_model !== undefined && other.state === state).length;
  return {
    state,
    ...(until !== undefined && { until: new Date(until).toISOString() }),
    ...(shadow && { mode: 'shadow' }),
    ...(upstream_model !== undefined && state !== 'closed' && { models }),
  };
}
