import type { Clock, Health, HealthPart, Log } from '../contract/services.ts';

/** Timeout of a readiness check before the component counts as down, in milliseconds. */
const TIMEOUT_MS = 2000;

/** Longest wait of a probe, in milliseconds. Load balancers time out after a second or two and count that as a failure. */
const ANSWER_MS = 500;

function withinAnswer<T>(check: Promise<T>, otherwise: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(otherwise()), ANSWER_MS);
    check.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Reloads of the configuration. Times are milliseconds since the epoch. */
export interface ReloadState {
  readonly loaded_at: number;
  readonly reloads: number;
  readonly failed_reloads: number;
  /** Since when the files contain an unusable configuration. */
  readonly failing_since: number | undefined;
}

/** A failed reload does not affect readiness, because the gateway keeps its configuration; it is only reported. */
function describeReloads({ loaded_at, reloads, failed_reloads, failing_since }: ReloadState): HealthPart {
  const failing = failing_since !== undefined;
  const details = { state: failing ? 'reload_failed' : 'ok', loaded_at: time(loaded_at), reloads, failed_reloads };
  return { ok: true, public_details: failing ? { ...details, failing_since: time(failing_since) } : details };
}

function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** The checks behind the readiness of a gateway. They may be slow: probes do not wait for them. */
export interface ReadinessTries {
  /** Writes to the database as a request does. Raises store_unavailable. */
  write(): Promise<void>;
  read(): Promise<{ readonly ok: boolean; readonly detail?: string }>;
  spool(): Promise<boolean>;
  knowsCallers(): boolean;
  servesWithoutReservations(): boolean;
  pipelines(): readonly StoreNeeds[];
}

/** What a pipeline needs from the database for each request. */
export interface StoreNeeds {
  readonly callers: boolean;
  /** A budget reservation, or a spool record if the limits allow it. */
  readonly reservations: boolean;
}

function wouldServe(
  tries: ReadinessTries,
  has: { readonly callers: boolean; readonly spool: Finding['spool'] },
): Pick<Finding, 'serves' | 'reason'> {
  const reserves = has.spool === 'ok';
  const serves = tries
    .pipelines()
    .some(({ callers, reservations }) => (!callers || has.callers) && (!reservations || reserves));
  if (serves) return { serves };
  const why =
    has.spool === 'unused'
      ? 'their limits say on_store_error: deny'
      : has.callers
        ? 'the spool cannot take them'
        : 'no caller is known';
  return { serves, reason: `requests are rejected without the database: ${why}` };
}

interface Finding {
  readonly database: 'ok' | 'read_only' | 'unavailable';
  readonly spool: 'ok' | 'unused' | 'unavailable';
  readonly detail?: string;
  readonly serves: boolean;
  /** Public reason why no requests are served. */
  readonly reason?: string;
}

/** Lifetime of a finding: many probes cost at most one statement a second. */
const FRESH_MS = 1000;

const SILENT = { database: 'unavailable', detail: `no response within ${TIMEOUT_MS / 1000} seconds` } as const;

/** Creates the readiness check. It tries what requests need, at most once a second, and reports the reloads of the configuration. */
export function createHealth(options: {
  readonly tries: ReadinessTries;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Log;
  reloads(): ReloadState;
  /** Public state of the upstreams, by name. */
  upstreams(): NonNullable<HealthPart['public_details']>;
  stopping(): boolean;
}): Health {
  const { tries, clock, log, reloads, upstreams, stopping } = options;
  let last: { readonly finding: Finding; readonly at: number } | undefined;
  let running: { readonly finding: Promise<Finding>; readonly since: number } | undefined;
  let served = true;

  const keep = (finding: Finding): Finding => {
    last = { finding, at: clock.monotonic() };
    const { serves, ...state } = finding;
    if (serves !== served && !stopping()) {
      if (serves) log.info(state, 'the gateway is ready again');
      else log.warn(state, 'the gateway is not ready: requests would be rejected');
    }
    served = serves;
    return finding;
  };
  const findOut = (): Promise<Finding> => {
    if (last !== undefined && clock.monotonic() - last.at < FRESH_MS) return Promise.resolve(last.finding);
    running ??= begin();
    const { finding, since } = running;
    const late = () => clock.monotonic() - since >= TIMEOUT_MS;
    if (late()) return Promise.resolve(silence());
    // The last finding stays valid until the timeout: slow is not down.
    return withinAnswer(finding, () => (late() ? silence() : (last?.finding ?? silence())));
  };
  const begin = () => {
    const finding = tryAll(tries)
      .then(keep)
      .finally(() => {
        running = undefined;
      });
    return { finding, since: clock.monotonic() };
  };
  const silence = (): Finding => {
    const spool = !tries.servesWithoutReservations()
      ? 'unused'
      : last?.finding.spool === 'unavailable'
        ? 'unavailable'
        : 'ok';
    return { ...SILENT, spool, ...wouldServe(tries, { callers: tries.knowsCallers(), spool }) };
  };

  return {
    get stopping() {
      return stopping();
    },
    async check() {
      const { database, spool, serves, detail, reason } = await findOut();
      return {
        database: {
          ok: database === 'ok',
          state: database,
          needed: !serves,
          ...(detail !== undefined && { detail }),
          ...(reason !== undefined && { reason }),
        },
        spool: { ok: spool !== 'unavailable', state: spool, needed: !serves },
        configuration: describeReloads(reloads()),
        // All replicas see the same outage: taking all of them out of rotation would hide the error from clients.
        upstreams: { ok: true, public_details: upstreams() },
      };
    },
  };
}

async function tryAll(tries: ReadinessTries): Promise<Finding> {
  const admits_outage = tries.servesWithoutReservations();
  try {
    await tries.write();
    return { database: 'ok', spool: admits_outage ? 'ok' : 'unused', serves: true };
  } catch (error) {
    const { ok, detail = error instanceof Error ? error.message : String(error) } = await tries.read();
    const spool = !admits_outage ? 'unused' : (await tries.spool()) ? 'ok' : 'unavailable';
    const would = wouldServe(tries, { callers: ok || tries.knowsCallers(), spool });
    return { database: ok ? 'read_only' : 'unavailable', spool, detail, ...would };
  }
}
