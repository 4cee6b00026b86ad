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
  /** Whether the spool takes requests. */
  spool(): Promise<boolean>;
  /** Whether some callers can be told without the database. */
  knowsCallers(): boolean;
  /** Whether the configuration lets requests go out without a reservation. */
  servesWithoutReservations(): boolean;
  /** Whether money is reserved for requests at all. */
  reservesMoney(): boolean;
}

/** What was found out about the store at some moment. */
interface Finding {
  readonly database: 'ok' | 'read_only' | 'unavailable';
  readonly spool: 'ok' | 'unused' | 'unavailable';
  readonly detail?: string;
  readonly serves: boolean;
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
  /** Whether the gateway was told to stop. */
  stopping(): boolean;
}): Health {
  const { tries, clock, log, reloads, stopping } = options;
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
    return { ...SILENT, spool, serves: tries.knowsCallers() && (!tries.reservesMoney() || spool === 'ok') };
  };

  return {
    get stopping() {
      return stopping();
    },
    async check() {
      const { database, spool, serves, detail } = await findOut();
      return {
        database: { ok: database === 'ok', state: database, needed: !serves, ...(detail !== undefined && { detail }) },
        spool: { ok: spool !== 'unavailable', state: spool, needed: !serves },
        configuration: describeReloads(reloads()),
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
    const known = ok || tries.knowsCallers();
    const serves = known && (!tries.reservesMoney() || spool === 'ok');
    return { database: ok ? 'read_only' : 'unavailable', spool, detail, serves };
  }
}
