import { LRUCache } from 'lru-cache';
import type { UpstreamConfig } from '../../../base/contract/config.ts';
import type {
  AttemptEffect,
  AttemptHandle,
  AttemptOrigin,
  Drained,
  Seen,
  Unavailable,
  UpstreamState,
  UpstreamStates,
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

/** Circuit breakers, rate limits and session affinity of the upstreams of a process. They outlive a reload. */
export interface LastingUpstreamStates extends UpstreamStates {
  /** Applies a new configuration. @param renewed names of secrets with a new value, whose upstreams start afresh */
  use(upstreams: readonly UpstreamConfig[], renewed?: ReadonlySet<string>): void;
  /** Replaces the list of drained upstreams, by name; the configuration need not have them yet. */
  setDrained(drained: ReadonlyMap<string, Drained>): void;
  /** Applies an incident that another process reports, for a bounded time. Ignores unknown upstreams. */
  heed(incident: Incident): void;
}

/** Time after a success in which a 404 does not mark a model as missing: it may be about something else. */
const WORKED_LATELY_MS = 30_000;
/** Minimum time between two log lines about the rate limit of an upstream. */
const LIMIT_LOG_MS = 60_000;
const MODEL_MISSING_MS = 300_000;
/** Longest effect of an incident of another process. */
const HEEDED_MS = 10_000;
/** The same for a rate limit, which applies to the account of all processes. */
const HEEDED_LIMIT_MS = 60_000;
/** Bound on models of an upstream that only other processes have reported. */
const HEEDED_MODELS_MAX = 200;
/** Sessions whose affinity is kept: about 10 MB in total. */
const AFFINITY_MAX = 50_000;

interface Shown {
  readonly n: number;
  readonly effect: AttemptEffect;
  readonly detail: string | undefined;
  readonly origin: AttemptOrigin | undefined;
  readonly retry_after_seconds: number | undefined;
}

const NONE: ReadonlySet<string> = new Set();

const NO_ATTEMPT: AttemptHandle = { report() {}, leave() {} };

/** Creates the states of upstreams, which are all healthy at first. @param options.random from 0 to 1, jitter */
export function createUpstreamStates(options: {
  readonly upstreams: readonly UpstreamConfig[];
  readonly clock: Clock;
  readonly log: Log;
  readonly random?: () => number;
  readonly onIncident?: (incident: Incident) => void;
  readonly onRecovery?: (subject: IncidentSubject) => void;
}): LastingUpstreamStates {
  const { clock, log, random = Math.random, onIncident = () => {}, onRecovery = () => {} } = options;
  const entries = new Map<string, UpstreamEntry>();
  const credentials = new Map<string, CredentialBreaker>();
  /** The upstream that has the prompt cache of a session, until it expires. */
  const affinity = new LRUCache<string, { readonly upstream: string; readonly until: number }>(atMost(AFFINITY_MAX));
  let drained: ReadonlyMap<string, Drained> = new Map();
  let attempts = 0;
  let heeding = false;

  const now = () => clock.monotonic();
  const epoch = (time: number) => Math.round(clock.now() + (time - now()));

  function announce(incident: Incident, is_news: boolean): void {
    if (is_news) logIncident(incident);
    if (!heeding) onIncident(incident);
  }

  function logIncident({ kind, until, failing_ms: _, ...about }: Incident): void {
    const fields = { ...about, until: new Date(until).toISOString() };
    const goes_elsewhere = kind === 'limited' || entries.get(about.upstream)?.mode === 'enforce';
    const follows = goes_elsewhere
      ? 'requests go to other upstreams until it is tried again'
      : 'it still gets requests (breaker.mode: shadow)';
    log[kind === 'credential' ? 'error' : kind === 'limited' ? 'info' : 'warn'](fields, `${WHAT[kind]}; ${follows}`);
  }

  function surroundings(about: IncidentSubject): BreakerSurroundings {
    return {
      latest: () => attempts,
      random,
      onOpen(until, failing_ms, is_first, last) {
        const why = is_first && last !== undefined && { last };
        announce({ ...about, until: epoch(until), ...why, failing_ms }, is_first);
      },
      onClose(open_ms) {
        const { kind, ...fields } = about;
        const what = kind === 'credential' ? 'an upstream accepts the credential again' : 'an upstream serves again';
        log.info({ ...fields, seconds: Math.round(open_ms / 1000) }, what);
        onRecovery(about);
      },
    };
  }

  function credentialOf(upstream: UpstreamConfig): CredentialBreaker {
    const place = placeOf(upstream);
    const known = credentials.get(place);
    if (known !== undefined) return known;
    const variable = upstream.api_key_env ?? upstream.auth_token_env;
    const credential = variable === undefined ? {} : { credential: secretPlace(variable) };
    const made = createCredentialBreaker(surroundings({ kind: 'credential', upstream: upstream.name, ...credential }));
    credentials.set(place, made);
    return made;
  }

  function use(upstreams: readonly UpstreamConfig[], renewed: ReadonlySet<string> = NONE): void {
    const before = new Map(entries);
    const isRenewed = ({ api_key_env, auth_token_env }: UpstreamConfig) =>
      renewed.has(api_key_env ?? auth_token_env ?? '');
    // The old key was rejected; the new one may be accepted.
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
    for (const [session, { upstream }] of affinity.entries()) if (!entries.has(upstream)) affinity.delete(session);
  }

  function limit(entry: UpstreamEntry, model: ModelEntry, { n, detail: last, retry_after_seconds }: Shown, at: number) {
    const until = model.limited.limit(n, at, last, retry_after_seconds);
    if (until === undefined) return;
    const about = { kind: 'limited', upstream: entry.name, upstream_model: model.upstream_model } as const;
    // At a rate limit, 429 and success alternate many times a second.
    const is_news = at - model.limit_logged_at >= LIMIT_LOG_MS;
    if (is_news) model.limit_logged_at = at;
    announce({ ...about, until: epoch(until), ...(last !== undefined && { last }) }, is_news);
  }

  /** Reports the result of an attempt to the breakers. Any response proves that there was a connection. */
  function learn(entry: UpstreamEntry, model: ModelEntry, shown: Shown): void {
    const { n, effect, detail, origin } = shown;
    const at = now();
    const { connect, credential } = entry;
    if (effect === 'limited') limit(entry, model, shown, at);
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
    if (effect === 'failure') model.breaker.fail(n, at, detail, origin);
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
    unavailable(upstream, upstream_model, by) {
      if (drained.has(upstream)) return { because: 'drained', until: undefined, last: undefined };
      const entry = entries.get(upstream);
      if (entry === undefined || isQuiet(entry, entry.models.get(upstream_model))) return undefined;
      const found = whyUnavailable(entry, upstream_model, now(), by);
      return found && { ...found, until: epoch(found.until!) };
    },
    begin(upstream, upstream_model, origin) {
      const entry = entries.get(upstream);
      if (entry === undefined) return NO_ATTEMPT;
      const model = entry.model(upstream_model);
      attempts += 1;
      const n = attempts;
      const tries = !isQuiet(entry, model);
      const watched = tries ? [entry.connect, entry.credential, model.breaker] : [];
      for (const breaker of watched) breaker.begin(n, now(), origin);
      entry.active += 1;
      let is_reported = false;
      let is_there = true;
      const release = () => {
        for (const breaker of watched) breaker.release(n);
      };
      return {
        report(effect, detail, retry_after_seconds) {
          if (is_reported) return;
          is_reported = true;
          if (effect !== 'neutral') learn(entry, model, { n, effect, detail, origin, retry_after_seconds });
          release();
        },
        leave(answer, detail) {
          if (!is_there) return;
          is_there = false;
          entry.active -= 1;
          release();
          if (answer === undefined || entry.mode === 'off') return;
          if (answer === 'whole') model.breaker.complete();
          else model.breaker.breakOff(++attempts, now(), detail, origin);
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
    affinity(session) {
      const found = affinity.get(session);
      return found !== undefined && now() < found.until ? found.upstream : undefined;
    },
    remember(session, upstream, seconds) {
      if (entries.has(upstream)) affinity.set(session, { upstream, until: now() + seconds * 1000 });
    },
    list: () => [...entries.values()].flatMap((entry) => describeEntry(entry, drained.get(entry.name), now(), epoch)),
    heed(incident) {
      const entry = entries.get(incident.upstream);
      if (entry === undefined) return;
      heeding = true;
      try {
        heedIncident(entry, incident, incident.until - clock.now(), now());
      } finally {
        heeding = false;
      }
    },
  };
}

function heedIncident(entry: UpstreamEntry, incident: Incident, ms: number, now: number): void {
  const { kind, upstream_model, last, failing_ms = 0 } = incident;
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
  limit_logged_at: number;
  /** The upstream responded that it does not have the model. */
  missing_until: number;
  missing_last: string | undefined;
  worked_at: number;
}

/** Key of the breaker for an address and credential. */
function placeOf({ base_url, api_key_env, auth_token_env }: UpstreamConfig): string {
  return `${new URL(base_url).href} ${api_key_env ?? auth_token_env ?? ''}`;
}

function createUpstreamEntry(
  upstream: UpstreamConfig,
  credential: CredentialBreaker,
  surroundings: (about: IncidentSubject) => BreakerSurroundings,
) {
  const { name } = upstream;
  let settings = upstream.breaker;
  const models = new Map<string, ModelEntry>();
  return {
    name,
    /** Address and credential, which identify an upstream independently of its name. */
    place: placeOf(upstream),
    credential,
    connect: createBreaker(settings, surroundings({ kind: 'unreachable', upstream: name })),
    models,
    mode: settings.mode,
    retry_budget: upstream.retry_budget,
    active: 0,
    retries: 0,
    model(upstream_model: string): ModelEntry {
      const known = models.get(upstream_model);
      if (known !== undefined) return known;
      const around = surroundings({ kind: 'open', upstream: name, upstream_model });
      const entry: ModelEntry = {
        upstream_model,
        breaker: createBreaker(settings, around),
        limited: createLimitedWindow(around.latest),
        limit_logged_at: Number.NEGATIVE_INFINITY,
        missing_until: 0,
        missing_last: undefined,
        worked_at: Number.NEGATIVE_INFINITY,
      };
      models.set(upstream_model, entry);
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

/** Fast path: whether all states are healthy, and have been for a while. Needs no clock. */
function isQuiet({ connect, credential }: UpstreamEntry, model: ModelEntry | undefined): boolean {
  if (!connect.is_quiet || !credential.is_quiet) return false;
  return model === undefined || (model.breaker.is_quiet && model.limited.is_quiet && model.missing_until === 0);
}

/** Why a request may not go to an upstream now: what lasts longest. Times are monotonic. */
function whyUnavailable(entry: UpstreamEntry, upstream_model: string, now: number, by?: Seen): Unavailable | undefined {
  const { connect, credential, mode } = entry;
  const model = entry.models.get(upstream_model);
  let longest: Unavailable | undefined;
  const note = (found: Unavailable) => {
    if (found.until !== undefined && (longest === undefined || found.until > longest.until!)) longest = found;
  };
  if (mode === 'enforce') {
    note({ because: 'credential', until: credential.until(now), last: credential.last });
    note({ because: 'open', until: connect.until(now), last: connect.last });
    if (model !== undefined) {
      const { breaker } = model;
      note({ because: 'open', until: breaker.until(now), last: breaker.last });
      const own = by && breaker.untilFor(by, now);
      if (own) note({ because: 'open', until: own.until, last: breaker.last, only_for: own.whose });
    }
  }
  if (model === undefined) return longest;
  note({ because: 'limited', until: model.limited.until(now), last: model.limited.last });
  if (model.missing_until > now)
    note({ because: 'model_missing', until: model.missing_until, last: model.missing_last });
  return longest;
}

const FIRST_MS = 1000;
const LAST_MS = 30_000;
/** Upper bound for `retry-after`. */
const LONGEST_MS = 3_600_000;

type LimitedWindow = ReturnType<typeof createLimitedWindow>;

/** Back-off after 429, no failure of the upstream: its `retry-after`, or 1 s, doubling up to 30 s until one is served. */
function createLimitedWindow(latest: () => number) {
  let ends = 0;
  let next_ms = FIRST_MS;
  /** Requests up to this number began before the limit was known. */
  let known_after = 0;
  let is_limited = false;
  let last: string | undefined;
  return {
    get is_quiet(): boolean {
      return !is_limited;
    },
    until: (now: number) => (is_limited && now < ends ? ends : undefined),
    /** Request `n` got 429. @returns the end of the limit, if it is new */
    limit(n: number, now: number, detail: string | undefined, retry_after_seconds: number | undefined) {
      const requested_ms = retry_after_seconds === undefined ? undefined : Math.max(retry_after_seconds, 0) * 1000;
      // Concurrent requests count once.
      const is_news = !is_limited || n > known_after;
      if (requested_ms === undefined && !is_news) return undefined;
      const first = !is_limited;
      ends = Math.max(ends, now + Math.min(requested_ms ?? next_ms, LONGEST_MS));
      if (requested_ms === undefined) next_ms = Math.min(next_ms * 2, LAST_MS);
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
    /** Request `n` was served. @returns whether that ended the limit */
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

type StateSummary = Pick<UpstreamState, 'state' | 'until' | 'last'>;

type Epoch = (time: number) => number;

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
    const summary = modelState(model, now, epoch);
    return summary === undefined ? [] : [{ upstream, upstream_model: model.upstream_model, ...summary, ...shadow }];
  });
  return [whole, ...of_models];
}

function wholeState({ credential, connect }: UpstreamEntry, now: number, epoch: Epoch): StateSummary {
  if (credential.phase(now) !== 'closed') return summaryOf('credential', credential.until(now), credential.last, epoch);
  const phase = connect.phase(now);
  return phase === 'closed' ? { state: 'closed' } : summaryOf(phase, connect.until(now), connect.last, epoch);
}

function modelState({ breaker, limited, ...model }: ModelEntry, now: number, epoch: Epoch): StateSummary | undefined {
  const phase = breaker.phase(now);
  if (phase !== 'closed') return summaryOf(phase, breaker.until(now), breaker.last, epoch);
  const callers = breaker.callersRefused(now);
  if (callers > 0) {
    const whose = callers === 1 ? 'one caller' : `${callers} callers`;
    return summaryOf('closed', undefined, `${breaker.last}, for ${whose} alone`, epoch);
  }
  const limited_until = limited.until(now);
  if (limited_until !== undefined) return summaryOf('limited', limited_until, limited.last, epoch);
  if (model.missing_until > now) return summaryOf('model_missing', model.missing_until, model.missing_last, epoch);
  return undefined;
}

function summaryOf(
  state: StateSummary['state'],
  until: number | undefined,
  last: string | undefined,
  epoch: Epoch,
): StateSummary {
  return { state, ...(until !== undefined && { until: epoch(until) }), ...(last !== undefined && { last }) };
}

/** An incident: something keeps requests from an upstream for a while. Published to other processes. */
export interface Incident {
  readonly kind: 'open' | 'unreachable' | 'credential' | 'limited';
  readonly upstream: string;
  readonly upstream_model?: string;
  /** Name of the variable with the credential, for incidents of credentials. */
  readonly credential?: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** Display text, such as `status 529`. */
  readonly last?: string;
  /** Time without success when the breaker opened. */
  readonly failing_ms?: number;
}

export type IncidentSubject = Omit<Incident, 'until' | 'last' | 'failing_ms'>;

const WHAT: Readonly<Record<Incident['kind'], string>> = {
  open: 'an upstream fails for this model',
  unreachable: 'no connection can be made to an upstream',
  credential: 'an upstream rejects the credential of the gateway',
  limited: 'an upstream rate-limits the gateway (429)',
};

/** States, worst first. */
const WORST_FIRST = ['drained', 'credential', 'open', 'half_open', 'limited', 'model_missing', 'closed'];

/** By how bad a state is; of equally bad ones, the one that ends first comes first: then the upstream is tried. */
function byWorst(a: UpstreamState, b: UpstreamState): number {
  const by_state = WORST_FIRST.indexOf(a.state) - WORST_FIRST.indexOf(b.state);
  return by_state || (a.until ?? Number.MAX_VALUE) - (b.until ?? Number.MAX_VALUE);
}

/**
 * Public summary by upstream: the worst state, its end, and the number of affected models unless it is the whole upstream. `mode` is
 * set if breakers only report. Contains no host, model or error text.
 */
export function summarizeUpstreams(states: readonly UpstreamState[]): NonNullable<HealthPart['public_details']> {
  const by_name = Map.groupBy(states, ({ upstream }) => upstream);
  return Object.fromEntries([...by_name].map(([name, all]) => [name, publicSummary(all)]));
}

function publicSummary(states: readonly UpstreamState[]): Readonly<Record<string, string | number>> {
  const whole = states.filter(({ upstream_model, state }) => upstream_model === undefined && state !== 'closed');
  const [worst] = (whole.length > 0 ? whole : states).toSorted(byWorst);
  const { state, until, upstream_model, shadow } = worst!;
  const models = states.filter((other) => other.upstream_model !== undefined && other.state === state).length;
  return {
    state,
    ...(until !== undefined && { until: new Date(until).toISOString() }),
    ...(shadow && { mode: 'shadow' }),
    ...(upstream_model !== undefined && state !== 'closed' && { models }),
  };
}
