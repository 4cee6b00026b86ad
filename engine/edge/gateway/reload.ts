import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from '../../base/contract/config.ts';
import type { Clock, Log } from '../../base/contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../base/contract/start-error.ts';
import type { Telemetry } from '../../base/contract/telemetry.ts';
import { deepFreeze } from '../../base/kit/freeze.ts';
import { ConfigurationError } from '../../base/source/configuration-error.ts';
import type { Diagnostic } from '../../base/source/diagnostics/diagnostic.ts';
import type { Loaded } from '../../base/source/spec.ts';
import type { ReloadState, StoreNeeds } from '../../base/store/health.ts';
import type { LoadCause } from '../../domain/audit/config-loads.ts';
import { configHash } from '../../domain/telemetry/config-hash.ts';
import { type LoadOptions, load } from '../../pipeline/load/index.ts';
import type { Plan } from '../../pipeline/run/plan.ts';
import {
  type ConfigurationParts,
  changedFiles,
  type DirectoryWatch,
  digestFiles,
  directoriesToWatch,
  watchDirectories,
} from './configuration-files.ts';
import type { NoteLoad } from './loads.ts';

/** Loads a configuration to run, which must have no errors. Raises ConfigurationError. */
export async function loadToRun(
  config_file: string,
  options: LoadOptions,
): Promise<{ config: GatewayConfig; loaded: Loaded }> {
  const loaded = await loadExisting(config_file, options);
  const broken = loaded.diagnostics.some(({ severity }) => severity === 'error');
  if (broken || loaded.config === undefined) throw new ConfigurationError(config_file, loaded);
  return { config: loaded.config, loaded };
}

/** Loads a configuration for its database, also with errors in pipelines. Raises ConfigurationError. */
export async function loadToRead(config_file: string, options: LoadOptions): Promise<GatewayConfig> {
  const loaded = await loadExisting(config_file, options);
  if (loaded.config === undefined) throw new ConfigurationError(config_file, loaded);
  return loaded.config;
}

function loadExisting(config_file: string, options: LoadOptions): Promise<Loaded> {
  if (existsSync(config_file)) return load(config_file, options);
  throw new StartError(`${config_file} does not exist; name the configuration to use with --config`, {
    exit_code: EXIT_CONFIGURATION,
  });
}

/** Merges a new configuration into the running one. @returns it, and the changed keys that need a restart */
export function adoptConfig(running: GatewayConfig, next: GatewayConfig) {
  const { listen, tls, limits } = running.server;
  const { tls: next_tls, ...next_server } = next.server;
  const { retention: _, ...database } = running.database;
  const { retention, ...next_database } = next.database;
  const spool_dir = running.spend_limits?.spool_dir;
  const next_spool = next.spend_limits?.spool_dir;
  // The certificate can change, but not whether TLS is on.
  const certificate = tls === undefined ? undefined : (next_tls ?? tls);
  const differs = {
    'server.listen': listen !== next.server.listen,
    'server.tls': (tls === undefined) !== (next_tls === undefined),
    'server.limits.header_bytes': limits.header_bytes !== next.server.limits.header_bytes,
    database: !isDeepStrictEqual(database, next_database),
    'spend_limits.spool_dir': spool_dir !== undefined && next_spool !== undefined && spool_dir !== next_spool,
  };
  const config: GatewayConfig = {
    ...next,
    server: {
      ...next_server,
      listen,
      ...(certificate && { tls: certificate }),
      limits: { ...next.server.limits, header_bytes: limits.header_bytes },
    },
    database: { ...database, ...(retention && { retention }) },
    ...(next.spend_limits && spool_dir !== undefined && { spend_limits: { ...next.spend_limits, spool_dir } }),
  };
  return {
    config: deepFreeze(config),
    needs_restart: Object.entries(differs).flatMap(([key, different]) => (different ? [key] : [])),
  };
}

/** Result of a reload: the active configuration, or an error. */
type ReloadEnd =
  | { readonly changed_files: number; readonly needs_restart: readonly string[]; readonly config: GatewayConfig }
  | { readonly error: unknown };

/** Records the start in telemetry; it began with the process. */
export function recordStart(telemetry: Pick<Telemetry, 'operation'>, pipelines: number, config: GatewayConfig): void {
  const attributes = { 'gateway.start.pipelines': pipelines, 'gateway.config.hash': configHash(config) };
  const { timeOrigin: began_at } = performance;
  telemetry.operation({ name: 'gateway.start', attributes, began_at, duration_ms: performance.now() });
}

/** What telemetry records of a reload. */
export function describeReload(end: ReloadEnd) {
  if (!('error' in end)) {
    const attributes = {
      'gateway.reload.result': 'in_force',
      'gateway.reload.changed_files': end.changed_files,
      'gateway.reload.needs_restart': end.needs_restart,
      'gateway.config.hash': configHash(end.config),
    };
    return { attributes };
  }
  const { error } = end;
  const findings =
    error instanceof ConfigurationError ? [...new Set(errorsIn(error).map(({ code }) => code))] : undefined;
  return {
    attributes: { 'gateway.reload.result': 'failed', 'gateway.reload.findings': findings },
    error_type: findings === undefined ? 'not_usable' : 'invalid_configuration',
  };
}

function errorsIn({ findings }: ConfigurationError): readonly Diagnostic[] {
  return findings.diagnostics.filter(({ severity }) => severity === 'error');
}

/** The active configuration, for services that outlive reloads; that of the start can be collected after a reload. */
export function configInForce(config: GatewayConfig, reloader: () => Reloader | undefined): () => GatewayConfig {
  let of_start: GatewayConfig | undefined = config;
  return () => {
    const now = reloader()?.config();
    if (now !== undefined) of_start = undefined;
    return now ?? of_start!;
  };
}

const MISSING_VARIABLE = 'C4011';
const RESTART = 'set it in the environment of the gateway, and restart it: a running process sees no new variables';

export function logFinding(log: Log, { severity, code, message, file, line, column, help }: Diagnostic): void {
  log[severity === 'error' ? 'error' : 'warn']({ code, file, line, column, help }, message);
}

export function createReloader<P extends Plan>(options: {
  readonly config_file: string;
  readonly loaded: Loaded;
  readonly plan: P;
  /** `moved`: the database URL points to another database. Raises ConfigurationError, StartError for a secret. */
  load(): Promise<{ readonly config: GatewayConfig; readonly loaded: Loaded; readonly moved: boolean }>;
  compile(config: GatewayConfig, loaded: Loaded): P;
  /** Activates a plan; if it throws, the previous plan stays. */
  use(plan: P): void;
  note: NoteLoad;
  readonly log: Log;
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'operation'>;
}) {
  // No closure may keep the options alive: they contain the first plan.
  const { config_file, load, compile, use, note: noteLoad, log, clock, telemetry } = options;
  let { plan } = options;
  let parts = partsOf(options.loaded);
  /** File digests of the last read, and of the active plan. */
  let read = digestFiles(parts);
  let in_force = read;
  let state: ReloadState = { loaded_at: clock.now(), reloads: 0, failed_reloads: 0, failing_since: undefined };
  let running: Promise<void> | undefined;
  let again: LoadCause | undefined;
  let stopped = false;
  let watched: DirectoryWatch | undefined;
  const closing = new Set<Promise<void>>();

  function retire(old: P): void {
    const closed_plan = old.close().finally(() => closing.delete(closed_plan));
    closing.add(closed_plan);
  }

  function replacePlan(next: P): void {
    try {
      use(next);
    } catch (error) {
      retire(next);
      throw error;
    }
    retire(plan);
    plan = next;
  }

  function note(next: ConfigurationParts, known: ReturnType<typeof digestFiles>): void {
    parts = partsOf(next);
    read = new Map([...digestFiles(parts)].map(([file, digest]) => [file, known.get(file) ?? digest]));
  }

  async function attempt(cause: LoadCause): Promise<void> {
    const [began_at, started] = [clock.now(), clock.monotonic()];
    const recordEnd = (end: ReloadEnd) => {
      const duration_ms = clock.monotonic() - started;
      telemetry.operation({ name: 'gateway.reload', ...describeReload(end), began_at, duration_ms });
    };
    const known = digestFiles(parts);
    try {
      const { config: next, loaded, moved } = await load();
      note(loaded, known);
      if (stopped) return;
      const { config, ...adopted } = adoptConfig(plan.config, next);
      const needs_restart = moved ? [...new Set([...adopted.needs_restart, 'database'])] : adopted.needs_restart;
      replacePlan(compile(config, loaded));
      state = { ...state, loaded_at: clock.now(), reloads: state.reloads + 1, failing_since: undefined };
      for (const finding of loaded.diagnostics) logFinding(log, finding);
      for (const key of needs_restart) log.warn({ key }, `${key} needs a restart; its old value stays in force`);
      const pipelines = loaded.pipelines.map(({ name }) => name);
      const duration_ms = Math.round(clock.monotonic() - started);
      const changed = changedFiles(in_force, read);
      log.info({ pipelines, changed, duration_ms }, 'the new configuration is in force');
      in_force = read;
      noteLoad(cause, { config, loaded, needs_restart }, changed);
      recordEnd({ changed_files: changed.length, needs_restart, config });
    } catch (error) {
      const { failed_reloads, failing_since = clock.now() } = state;
      state = { ...state, failed_reloads: failed_reloads + 1, failing_since };
      if (error instanceof ConfigurationError) note(error.findings, known);
      else read = new Map([...read, ...known]);
      explainFailure(error);
      noteLoad(cause, { error }, changedFiles(in_force, read));
      recordEnd({ error });
    }
  }

  function explainFailure(error: unknown): void {
    const kept = 'the reload failed; the configuration before it stays in force';
    if (!(error instanceof ConfigurationError)) {
      log.error({ config_file, err: error }, kept);
      return;
    }
    const errors = errorsIn(error);
    for (const finding of errors)
      logFinding(log, finding.code === MISSING_VARIABLE ? { ...finding, help: RESTART } : finding);
    log.error({ config_file, errors: errors.length }, kept);
  }

  async function run(): Promise<void> {
    for (let cause = again; cause !== undefined && !stopped; cause = again) {
      again = undefined;
      await attempt(cause);
    }
    running = undefined;
    // The new configuration may have files in other directories.
    watched?.look();
  }

  function reload(cause: LoadCause): Promise<void> {
    if (stopped) return Promise.resolve();
    again = cause;
    running ??= run();
    return running;
  }

  async function reloadIfChanged(): Promise<void> {
    // A running reload may have begun before the change.
    await running;
    if (changedFiles(read, digestFiles(parts)).length > 0) await reload('files');
  }

  return {
    /** Activates the new configuration if it has no errors. Calls during a reload become one more. Never rejects. */
    reload,
    watch(): void {
      watched = watchDirectories({
        directories: () => directoriesToWatch(parts),
        onQuiet: () => void reloadIfChanged(),
        clock,
        log,
      });
    },
    config: (): GatewayConfig => plan.config,
    storeNeeds: (): readonly StoreNeeds[] => plan.store_needs,
    state: (): ReloadState => state,
    /** Prevents new reloads. Resolves when a running one has ended. */
    async stop(): Promise<void> {
      stopped = true;
      watched?.close();
      await running;
    },
    /** Resolves when the active and all previous plans have served their last request and are closed. */
    async close(): Promise<void> {
      retire(plan);
      await Promise.all(closing);
    },
  };
}

/** Replaces the plan of a running gateway. */
export type Reloader = ReturnType<typeof createReloader>;

function partsOf(parts: ConfigurationParts): ConfigurationParts {
  const { files, secret_files, pipelines_directory, policies_directory } = parts;
  return { files, secret_files, pipelines_directory, policies_directory };
}
