import type { UpstreamConfig } from '../../contract/config.ts';
import type { Closed, Seen } from '../../contract/forwarding.ts';
import { type Breaker, type BreakerSurroundings, createBreaker } from './breaker.ts';
import type { CredentialBreaker } from './credential-breaker.ts';
import { createLimitedWindow, type LimitedWindow } from './limited-window.ts';
import type { TroubleSubject } from './trouble.ts';

/** What is known of one model at an upstream. */
export interface ModelEntry {
  readonly upstream_model: string;
  readonly breaker: Breaker;
  readonly limited: LimitedWindow;
  /** When the log said last that it is limited. */
  limited_told_at: number;
  /** It does not have the model, as it said itself. */
  missing_until: number;
  missing_last: string | undefined;
  /** When it was served last. */
  worked_at: number;
}

/** What is known of one upstream. */
export interface UpstreamEntry {
  readonly name: string;
  /** Where it is and with which credential: another place is another upstream, whatever its name. */
  readonly place: string;
  readonly credential: CredentialBreaker;
  readonly connect: Breaker;
  readonly models: Map<string, ModelEntry>;
  mode: UpstreamConfig['breaker']['mode'];
  retry_budget: UpstreamConfig['retry_budget'];
  active: number;
  retries: number;
  /** What is known of a model; of a new one nothing. */
  model(upstream_model: string): ModelEntry;
  /** Takes the settings of a new configuration. */
  use(upstream: UpstreamConfig): void;
}

/** Address and name of the credential, which have a breaker of their own. */
export function placeOf({ base_url, api_key_env, auth_token_env }: UpstreamConfig): string {
  return `${new URL(base_url).href} ${api_key_env ?? auth_token_env ?? ''}`;
}

/** Makes the entry of an upstream nothing is known of. */
export function createUpstreamEntry(
  upstream: UpstreamConfig,
  credential: CredentialBreaker,
  surroundings: (about: TroubleSubject) => BreakerSurroundings,
): UpstreamEntry {
  const { name } = upstream;
  let settings = upstream.breaker;
  const models = new Map<string, ModelEntry>();
  return {
    name,
    place: placeOf(upstream),
    credential,
    connect: createBreaker(settings, surroundings({ kind: 'unreachable', upstream: name })),
    models,
    mode: settings.mode,
    retry_budget: upstream.retry_budget,
    active: 0,
    retries: 0,
    model(upstream_model) {
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
    use(next) {
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

/** Whether all is as it should be, and has been for long: nearly always, and then not even the time has to be known. */
export function isQuiet({ connect, credential }: UpstreamEntry, model: ModelEntry | undefined): boolean {
  if (!connect.is_quiet || !credential.is_quiet) return false;
  return model === undefined || (model.breaker.is_quiet && model.limited.is_quiet && model.missing_until === 0);
}

/**
 * What speaks against a request to an upstream at a time, the longest-lasting of it; times are those of the breakers.
 * @param seen_by whose request it is, and which, where that is known
 */
export function whatCloses(
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
