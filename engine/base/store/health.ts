import type { Clock, Health, HealthPart, Log } from '../contract/services.ts';

/** Longest a try may take before the part counts as down, in milliseconds: requests wait only seconds. */
const PATIENCE_MS = 2000;

/** Longest a probe waits, in milliseconds. Balancers give up after a second or two, and would take that for a no. */
const ANSWER_MS = 500;

function withinAnswer<T>(check: Promise<T>, otherwise: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(otherwise()), ANSWER_MS);
    check.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** How the configuration in force came about. Times are milliseconds since the epoch. */
export interface ReloadState {
  /** When the configuration in force was loaded. */
  readonly loaded_at: number;
  /** Reloads that succeeded, and that did not, since the start. */
  readonly reloads: number;
  readonly failed_reloads: number;
  /** Since when the files hold a configuration that can't be put in force. */
  readonly failing_since: number | undefined;
}

/** A gateway whose last reload failed still serves, so it is as ready as before; it only says so. */
function describeReloads({ loaded_at, reloads, failed_reloads, failing_since }: ReloadState): HealthPart {
  const failing = failing_since !== undefined;
  const told = { state: failing ? 'reload_failed' : 'ok', loaded_at: time(loaded_at), reloads, failed_reloads };
  return { ok: true, told: failing ? { ...told, failing_since: time(failing_since) } : told };
}

function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** What the readiness of a gateway depends on. Each try may take as long as it needs: nobody waits for it. */
export interface ReadinessTries {
  /** Writes to the database what a request needs written. Raises store_unavailable. */
  write(): Promise<void>;
  /** Reads from the database. */
  read(): Promise<{ readonly ok: boolean; readonly detail?: string }>;
  spool(): Promise<boolean>;
  knowsCallers(): boolean;
  servesWithoutReservations(): boolean;
  /** What the requests of each pipeline for models need to know before they leave. */
  pipelines(): readonly StoreNeeds[];
}

/** What a pipeline needs of the store for every request. */
export interface StoreNeeds {
  readonly callers: boolean;
  /** That money is reserved, or noted in the spool where limits allow it. */
  readonly reservations: boolean;
}

/** Whether the gateway would serve anybody: it is enough that one pipeline would. */
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
  return { serves, reason: `requests are refused without the database: ${why}` };
}

/** What was found out about the store at some moment. */
interface Finding {
  readonly database: 'ok' | 'read_only' | 'unavailable';
  readonly spool: 'ok' | 'unused' | 'unavailable';
  readonly detail?: string;
  readonly serves: boolean;
  /** Why nobody is served, in words for anybody. */
  readonly reason?: string;
}

/** What is known stays good for so long: a crowd of probes costs no more than one statement a second. */
const FRESH_MS = 1000;

const SILENT = { database: 'unavailable', detail: `no answer within ${PATIENCE_MS / 1000} seconds` } as const;

/**
 * Readiness: whether requests would be served, found out by trying what they need, at most once a second; and how the
 * configuration came about.
 */
export function createHealth(options: {
  readonly tries: ReadinessTries;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Log;
  reloads(): ReloadState;
  /** What anybody may know about the upstreams, by name. */
  upstreams(): NonNullable<HealthPart['told']>;
  /** Whether the gateway was told to stop. */
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
      else log.warn(state, 'the gateway is not ready: requests would be refused');
    }
    served = serves;
    return finding;
  };
  const findOut = (): Promise<Finding> => {
    if (last !== undefined && clock.monotonic() - last.at < FRESH_MS) return Promise.resolve(last.finding);
    running ??= begin();
    const { finding, since } = running;
    const late = () => clock.monotonic() - since >= PATIENCE_MS;
    if (late()) return Promise.resolve(silence());
    // What was known last holds until patience ends: a slow answer is one.
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
  /** A database that does not answer is away like any other. */
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
        // All replicas see the same outage: without them, nobody would be left to say what is wrong.
        upstreams: { ok: true, told: upstreams() },
      };
    },
  };
}

async function tryAll(tries: ReadinessTries): Promise<Finding> {
  const may_go_out = tries.servesWithoutReservations();
  try {
    await tries.write();
    return { database: 'ok', spool: may_go_out ? 'ok' : 'unused', serves: true };
  } catch (error) {
    const { ok, detail = error instanceof Error ? error.message : String(error) } = await tries.read();
    const spool = !may_go_out ? 'unused' : (await tries.spool()) ? 'ok' : 'unavailable';
    const would = wouldServe(tries, { callers: ok || tries.knowsCallers(), spool });
    return { database: ok ? 'read_only' : 'unavailable', spool, detail, ...would };
  }
}
