import type { LoadCause } from '../audit/config-loads.ts';
import type { GatewayConfig } from '../contract/config.ts';
import type { Clock, Log } from '../contract/services.ts';
import type { Telemetry } from '../contract/telemetry.ts';
import type { Plan } from '../run/plan.ts';
import { ConfigurationError } from '../source/configuration-error.ts';
import type { Diagnostic } from '../source/diagnostics/diagnostic.ts';
import type { Loaded } from '../source/spec.ts';
import type { ReloadState, StoreNeeds } from '../store/health.ts';
import { type ConfigurationParts, changedFiles, digestFiles, directoriesToWatch } from './configuration-files.ts';
import type { NoteLoad } from './loads/note-loads.ts';
import { adoptConfig } from './restart-keys.ts';
import { beginReload } from './tell-operations.ts';
import { type DirectoryWatch, watchDirectories } from './watch-directories.ts';

/** Replaces the plan of a running gateway. */
export interface Reloader {
  /**
   * Loads the configuration again and, when nothing is wrong with it, puts it in force for the requests to come.
   * Calls during a reload lead to one more after it. Never rejects: what goes wrong is logged and counted.
   */
  reload(cause: LoadCause): Promise<void>;
  /** From now on reloads whenever the files of the configuration have changed. */
  watch(): void;
  /** The configuration in force. */
  config(): GatewayConfig;
  /** What the pipelines for models need of the store, in this configuration. */
  storeNeeds(): readonly StoreNeeds[];
  state(): ReloadState;
  /** No reload begins any more. Resolves when the one that runs has ended. */
  stop(): Promise<void>;
  /** Resolves when the plan in force and those before it have served their last request and are closed. */
  close(): Promise<void>;
}

const MISSING_VARIABLE = 'C4011';
const RESTART = 'set it where the gateway is started, and restart it: a program that runs sees no new variables';

/** Logs a finding of the loader with its position. */
export function logFinding(log: Log, { severity, code, message, file, line, column, help }: Diagnostic): void {
  log[severity === 'error' ? 'error' : 'warn']({ code, file, line, column, help }, message);
}

/** Makes the reloader of a gateway that runs with `plan`. */
export function createReloader<P extends Plan>(options: {
  readonly config_file: string;
  readonly loaded: Loaded;
  readonly plan: P;
  /** `moved`: the URL of the database names another one. Raises ConfigurationError, StartError for a secret. */
  load(): Promise<{ readonly config: GatewayConfig; readonly loaded: Loaded; readonly moved: boolean }>;
  /** Makes a plan; may throw. */
  compile(config: GatewayConfig, loaded: Loaded): P;
  /** Puts a plan in force; may throw, and then the one before stays. */
  use(plan: P): void;
  /** Is told how each reload ended. */
  note: NoteLoad;
  readonly log: Log;
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'operation'>;
}): Reloader {
  // No closure may hold on to the options: the plan of the start is in them.
  const { config_file, load, compile, use, note: noteLoad, log, clock, telemetry } = options;
  let { plan } = options;
  let parts = partsOf(options.loaded);
  /** What the files held when they were last read, and when the plan in force was made. */
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

  /** Takes note of what was read; files nobody knew of before are looked at only now. */
  function note(next: ConfigurationParts, known: ReturnType<typeof digestFiles>): void {
    parts = partsOf(next);
    read = new Map([...digestFiles(parts)].map(([file, digest]) => [file, known.get(file) ?? digest]));
  }

  async function attempt(cause: LoadCause): Promise<void> {
    const started = clock.monotonic();
    const tell = beginReload({ telemetry, clock });
    const known = digestFiles(parts);
    try {
      const { config: wanted, loaded, moved } = await load();
      note(loaded, known);
      if (stopped) return;
      const { config, ...adopted } = adoptConfig(plan.config, wanted);
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
      tell({ changed_files: changed.length, needs_restart, config });
    } catch (error) {
      const { failed_reloads, failing_since = clock.now() } = state;
      state = { ...state, failed_reloads: failed_reloads + 1, failing_since };
      if (error instanceof ConfigurationError) note(error.findings, known);
      else read = new Map([...read, ...known]);
      explainFailure(error);
      noteLoad(cause, { error }, changedFiles(in_force, read));
      tell({ error });
    }
  }

  function explainFailure(error: unknown): void {
    const kept = 'the reload failed; the configuration before it stays in force';
    if (!(error instanceof ConfigurationError)) {
      log.error({ config_file, err: error }, kept);
      return;
    }
    const errors = error.findings.diagnostics.filter(({ severity }) => severity === 'error');
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
    // What was read now may lie elsewhere.
    watched?.look();
  }

  function reload(cause: LoadCause): Promise<void> {
    if (stopped) return Promise.resolve();
    again = cause;
    running ??= run();
    return running;
  }

  async function reloadIfChanged(): Promise<void> {
    // A reload that runs may have begun before the change.
    await running;
    if (changedFiles(read, digestFiles(parts)).length > 0) await reload('files');
  }

  return {
    reload,
    watch() {
      watched = watchDirectories({
        directories: () => directoriesToWatch(parts),
        onQuiet: () => void reloadIfChanged(),
        clock,
        log,
      });
    },
    config: () => plan.config,
    storeNeeds: () => plan.store_needs,
    state: () => state,
    async stop() {
      stopped = true;
      watched?.close();
      await running;
    },
    async close() {
      retire(plan);
      await Promise.all(closing);
    },
  };
}

function partsOf(parts: ConfigurationParts): ConfigurationParts {
  const { files, secret_files, pipelines_directory, policies_directory } = parts;
  return { files, secret_files, pipelines_directory, policies_directory };
}
