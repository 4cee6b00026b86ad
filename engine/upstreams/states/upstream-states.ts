import type { UpstreamConfig } from '../../contract/config.ts';
import type { AttemptEffect, Drained, Trial, UpstreamStates, Witness } from '../../contract/forwarding.ts';
import type { Clock, Log } from '../../contract/services.ts';
import { secretPlace } from '../../kit/secret-names.ts';
import type { BreakerSurroundings } from './breaker.ts';
import { type CredentialBreaker, createCredentialBreaker } from './credential-breaker.ts';
import { describeEntry } from './describe-entry.ts';
import { createHomes } from './homes.ts';
import { logRecovery, logTrouble, type Trouble, type TroubleSubject } from './trouble.ts';
import {
  createUpstreamEntry,
  isQuiet,
  type ModelEntry,
  placeOf,
  type UpstreamEntry,
  whatCloses,
} from './upstream-entry.ts';

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

/** How trial `n` ended, and whose it was. */
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
      const { percent, least } = entry.retry_budget;
      if (entry.retries >= Math.max(least, Math.floor((entry.active * percent) / 100))) return undefined;
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
