import { dirname, resolve } from 'node:path';
import type { Router } from 'express';
import { clientCommand } from '../../base/contract/client-package.ts';
import { DEFAULT_RETENTION, type GatewayConfig } from '../../base/contract/config.ts';
import type { Clock, Services, SharedServices } from '../../base/contract/services.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { EXIT_CONFIGURATION, StartError } from '../../base/contract/start-error.ts';
import { everyInBackground, systemClock } from '../../base/kit/clock.ts';
import { explainListenError } from '../../base/kit/net/listen-error.ts';
import { configuredProxyRoute, describeProxyRoute, proxyRouteTo } from '../../base/kit/net/proxy-route.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { waitAtMost } from '../../base/kit/wait-at-most.ts';
import { compileCondition } from '../../base/rules/compile.ts';
import type { Loaded } from '../../base/source/spec.ts';
import { databasePlace, openDatabase } from '../../base/store/database.ts';
import { createHealth } from '../../base/store/health.ts';
import { createSecrets, readSecretFiles } from '../../base/store/secrets.ts';
import { OpenAuditLog } from '../../domain/audit/audit-log.ts';
import { openLiveRecords } from '../../domain/audit/live-records.ts';
import { DatabaseLedger } from '../../domain/budget/ledger/ledger.ts';
import { startRetention, startUsageSums } from '../../domain/budget/ledger/upkeep.ts';
import { createLimitsInForce } from '../../domain/budget/limits/refusals.ts';
import { goesOnWithoutStore, servesWithoutReservations } from '../../domain/budget/limits/spend-limits.ts';
import { SpoolingLedger, type WriteRecords } from '../../domain/budget/spool/spooling-ledger.ts';
import { verifiedDays } from '../../domain/identity/deprovisioning/deprovision.ts';
import { startEndedGrants } from '../../domain/identity/deprovisioning/ended-grants.ts';
import { startAccountChecks } from '../../domain/identity/deprovisioning/recheck-session.ts';
import { createIdentity, type Identity } from '../../domain/identity/identity.ts';
import { type DecidingGroups, decidingGroups } from '../../domain/identity/provider/deciding-groups.ts';
import { startHousekeeping } from '../../domain/identity/sessions/housekeeping.ts';
import { openKeyHolders } from '../../domain/identity/sessions/key-holders.ts';
import { openRevocations, openSessionActivity } from '../../domain/identity/sessions/sessions.ts';
import { AccessTokens, createBearerTokens } from '../../domain/identity/tokens/access-tokens.ts';
import { createManagedPolicies } from '../../domain/policies/managed-policies.ts';
import { openPolicyFetches } from '../../domain/policies/policy-fetches.ts';
import type { ExportedLog } from '../../domain/telemetry/export/exports.ts';
import { openTelemetry } from '../../domain/telemetry/open-telemetry.ts';
import { openModelLists } from '../../domain/upstreams/lists/model-lists.ts';
import { createModelCatalog } from '../../domain/upstreams/models.ts';
import { openUpstreamStates } from '../../domain/upstreams/states/shared-states.ts';
import { summarizeUpstreams } from '../../domain/upstreams/states/upstream-states.ts';
import type { RequestContext } from '../../pipeline/run/context.ts';
import { buildPlan, type Plan } from '../../pipeline/run/plan.ts';
import type { AdminOptions } from '../admin/calls.ts';
import { adminRoutes } from '../http/admin.ts';
import { type ServedPlan, servePlan } from '../http/app.ts';
import { clientPackageRoute } from '../http/client-package.ts';
import { clientTelemetryRoutes } from '../http/client-telemetry.ts';
import { consoleFiles } from '../http/console-files.ts';
import { GatewayServer } from '../http/server.ts';
import {
  consoleSessionRoutes,
  createConsoleCallers,
  frontRoute,
  protocolRoute,
  signInOff,
  signInRoutes,
} from '../http/sign-in/index.ts';
import { observeGateway, observeServices } from './gateway-metrics.ts';
import { createNoteLoad, openLoadRecord } from './loads.ts';
import { configInForce, createReloader, loadToRun, logFinding, type Reloader, recordStart } from './reload.ts';
import { runShutdown, type ShutdownStep } from './signals.ts';

function createStartPhases() {
  /** Milliseconds per phase, in order, with `total`. */
  const durations_ms: Record<string, number> = {};
  let last = 0;
  const end = (name: string) => {
    const now = performance.now();
    durations_ms[name] = Math.round(now - last);
    durations_ms.total = Math.round(now);
    last = now;
  };
  end('program');
  return { end, durations_ms };
}

type Opened = Awaited<ReturnType<typeof openServices>>;

/** Creates the services of a configuration. Raises StartError for a secret, RangeError for an inexact price. */
function createPlanServices(
  config: GatewayConfig,
  loaded: Pick<Loaded, 'policies' | 'pipelines'>,
  secret: (name: string) => string,
  foundation: Opened['foundation'],
) {
  const groups = decidingGroups(config, loaded);
  const identity = createIdentity(config, secret, foundation, groups);
  const tokens = createBearerTokens(foundation.access_tokens, identity?.tokens);
  const policies = createManagedPolicies(config, loaded.policies, foundation.policy_fetches.note);
  const models = createModelCatalog(config, policies, foundation.model_lists);
  const { pipelines } = loaded;
  return { config, pipelines, services: { config, models, policies, secret, tokens }, identity, groups };
}

function routesOf(
  served: Opened &
    Pick<Loaded, 'pipelines' | 'policies'> & {
      readonly plan: Plan;
      readonly identity: Identity | undefined;
      readonly explained: AdminOptions['explained'] & object;
    },
): Router[] {
  const { plan, pipelines, policies, identity, database, foundation, telemetry, upstreams, live, explained } = served;
  const { config, services } = plan;
  const { clock, log, models, tokens } = services;
  const verify = (token: string) => tokens.verify(token);
  const common = { config, database, clock, log, telemetry };
  const console_callers = createConsoleCallers({ ...common, identity });
  return [
    frontRoute({ config, clock, log }),
    protocolRoute({ config, pipelines, version: programVersion(), clock, log }),
    identity === undefined
      ? signInOff({ branding: config.branding, clock, log })
      : signInRoutes({ ...common, identity }),
    consoleSessionRoutes({ ...common, identity }, console_callers),
    clientTelemetryRoutes({ config, relay: telemetry.relay, verify, clock, log }),
    clientPackageRoute(config),
    consoleFiles(config.server.public_url),
    adminRoutes({
      ...common,
      ...{ policies, verify, models, upstreams, live, explained, console: console_callers },
      ...{ sessions: identity?.sessions, catchUp: foundation.catchUp },
    }),
  ];
}

/** Longest wait of the start for the lists of ended sessions (until then only access tokens work), drained upstreams and models. */
const LISTS_TIMEOUT_MS = 2000;
/** Default timeout of reservations without `spend_limits.store_timeout_seconds`. */
const DEFAULT_STORE_TIMEOUT_SECONDS = 2;
/** Timeout of a shutdown step except the server's drain; services limit themselves to 5 seconds. */
const STEP_SECONDS = 8;
/** Time beyond `drain_seconds` for aborting the remaining requests. */
const DRAIN_GRACE_SECONDS = 10;

/**
 * Starts a gateway. Starts without the database, too; requests get 503 until it is available. Raises StartError after closing
 * everything opened.
 */
export async function startGateway(options: {
  readonly config_file: string;
  readonly stages: readonly StageDefinition[];
  readonly env: NodeJS.ProcessEnv;
  readonly log: ExportedLog;
  readonly clock?: Clock;
  readonly watch?: boolean;
  /** `host:port` to listen on instead of `server.listen`. */
  readonly listen?: string | undefined;
}) {
  const { config_file, stages, log, clock = systemClock, watch = false } = options;
  const load = () =>
    loadToRun(config_file, { stages, env: options.env, environment: 'required', listen: options.listen });
  // Services that outlive reloads read the secrets of the active configuration here.
  const env: NodeJS.ProcessEnv = Object.create(options.env);
  const withFiles = (files: NodeJS.ProcessEnv): NodeJS.ProcessEnv => Object.assign(Object.create(env), files);
  const secretsOf = (config: GatewayConfig, loaded: Loaded, from: NodeJS.ProcessEnv) =>
    createSecrets({ ...loaded, config }, from, (secret) => log.hide?.(secret));
  const phases = createStartPhases();
  const { config, loaded } = await load();
  phases.end('configuration');
  for (const finding of loaded.diagnostics) logFinding(log, finding);
  // Before opening anything that could log a secret.
  Object.assign(env, readSecretFiles(loaded));
  const secret = secretsOf(config, loaded, env);
  let reloader: Reloader;
  let server: GatewayServer | undefined;
  const stopping = () => server?.stopping === true;
  const shutdown: ShutdownStep[] = [];
  const of_config = new WeakMap<
    GatewayConfig,
    ReturnType<typeof createPlanServices> & { readonly files: Readonly<Record<string, string>> }
  >();
  const groups = () => of_config.get(reloader.config())?.groups;
  // After Ctrl-C there is no load balancer to wait for.
  let stop_signal: NodeJS.Signals | undefined;
  const acceptSeconds = () => (stop_signal === 'SIGTERM' ? reloader.config().server.drain.accept_seconds : 0);
  const close = (signal?: NodeJS.Signals) => {
    stop_signal = signal;
    return runShutdown(shutdown.splice(0).reverse(), log);
  };
  try {
    const keysInForce = () => of_config.get(reloader.config())?.identity?.tokens.key_ids ?? [];
    const opened = await openServices(
      { config, env, secret, log, clock, phases, reloader: () => reloader, keysInForce, groups, stopping },
      shutdown,
    );
    phases.end('services');
    const compile = (config: GatewayConfig, loaded: Loaded): ServedPlan => {
      const files = readSecretFiles({ ...loaded, config });
      const secret = secretsOf(config, loaded, withFiles(files));
      const made = createPlanServices(config, loaded, secret, opened.foundation);
      const { services, identity } = made;
      of_config.set(config, { ...made, files });
      const plan = buildPlan({ ...loaded, config }, { ...opened.lasting, ...services });
      const explained = { loaded, directory: dirname(resolve(config_file)) };
      return servePlan(plan, log, routesOf({ plan, ...loaded, identity, explained, ...opened }), opened.telemetry);
    };
    const databaseMoved = ({ config, loaded }: { readonly config: GatewayConfig; readonly loaded: Loaded }) =>
      config.database.postgres !== undefined &&
      config.database.postgres.url_env === reloader.config().database.postgres?.url_env &&
      databasePlace(config, withFiles(readSecretFiles(loaded))) !== place;
    const place = config.database.postgres && databasePlace(config, env);
    const plan = compile(config, loaded);
    opened.ended_grants.use(of_config.get(plan.config)?.identity);
    const { telemetry } = opened;
    const loads = openLoadRecord({ database: opened.database, clock, log });
    shutdown.push({ name: 'record of loads', seconds: STEP_SECONDS, close: () => loads.close() });
    const note = createNoteLoad(config_file, loads);
    const listening = new GatewayServer({ plan, log, clock, telemetry });
    server = listening;
    reloader = createReloader({
      config_file,
      loaded,
      plan,
      async load() {
        const next = await load();
        return { ...next, moved: databaseMoved(next) };
      },
      compile,
      use(next) {
        const { files } = of_config.get(next.config)!;
        const renewed = new Set(Object.keys(files).filter((name) => env[name] !== files[name]));
        listening.use(next);
        Object.assign(env, files);
        opened.upstreams.use(next.config.upstreams, renewed);
        opened.foundation.model_lists.use(next.config, of_config.get(next.config)!.services.secret);
        telemetry.use(next.config);
        opened.ended_grants.use(of_config.get(next.config)?.identity);
      },
      note,
      log,
      clock,
      telemetry,
    });
    shutdown.push({ name: 'pipelines', seconds: STEP_SECONDS, close: () => reloader.close() });
    const signIn = () => ({ config: reloader.config(), identity: of_config.get(reloader.config())?.identity });
    const checks = startAccountChecks({ database: opened.database, clock, log, telemetry, signIn });
    shutdown.push({ name: 'checks of people', seconds: STEP_SECONDS, close: () => checks.close() });
    const reloads = () => reloader.state();
    observeGateway(telemetry.metrics, { server: listening, reloads, plan: () => of_config.get(reloader.config())! });
    const url = await listen(listening, config, options.listen === undefined ? undefined : '--listen');
    shutdown.push({
      name: 'server',
      get seconds() {
        return reloader.config().server.timeouts.drain_seconds + DRAIN_GRACE_SECONDS;
      },
      close: () => listening.drain(acceptSeconds()),
    });
    shutdown.push({ name: 'reloading', seconds: STEP_SECONDS, close: () => reloader.stop() });
    if (watch) reloader.watch();
    phases.end('pipelines');
    log.info(
      config.database.retention ?? DEFAULT_RETENTION,
      'retention in whole months; database.retention changes it',
    );
    const pipelines = loaded.pipelines.map(({ name }) => name);
    log.info({ url, pipelines, start_ms: phases.durations_ms }, 'the gateway is listening');
    recordStart(telemetry, pipelines.length, config);
    for (const { name, proxy } of config.upstreams) {
      const way = configuredProxyRoute(proxy, secret);
      if (way.proxy !== undefined)
        log.info({ upstream: name, way: describeProxyRoute(way) }, 'upstream requests use a proxy');
    }
    note('start', { config, loaded, needs_restart: [] }, []);
    if (!(await opened.database.check()).ok) {
      log.warn({}, 'the database is unavailable; requests are rejected until it is available');
    }
    return {
      url,
      database: opened.database,
      /** Reloads the configuration. Never rejects: errors are logged, and the previous configuration stays. */
      reload: () => reloader.reload('signal'),
      /** Graceful shutdown; after SIGTERM it first accepts for `server.drain.accept_seconds`. Never rejects. */
      close,
    };
  } catch (error) {
    await close();
    if (error instanceof StartError) throw error;
    // Failures beyond the checks: an invalid certificate, or a custom stage that throws.
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(`cannot start with ${config_file}: ${reason}`, {
      exit_code: EXIT_CONFIGURATION,
      cause: error,
    });
  }
}

/** A running gateway. */
export type RunningGateway = Awaited<ReturnType<typeof startGateway>>;

async function openServices(
  options: Pick<Services, 'log' | 'clock'> & {
    readonly config: GatewayConfig;
    readonly env: NodeJS.ProcessEnv;
    readonly log: ExportedLog;
    secret(name: string): string;
    readonly phases: ReturnType<typeof createStartPhases>;
    reloader(): Reloader;
    keysInForce(): readonly string[];
    groups(): DecidingGroups | undefined;
    stopping(): boolean;
  },
  shutdown: ShutdownStep[],
) {
  const { config, log, clock, env, secret, phases, reloader, keysInForce, groups, stopping } = options;
  const opened = <T extends { close(): void | Promise<void> }>(name: string, service: T): T => {
    shutdown.push({ name, seconds: STEP_SECONDS, close: async () => service.close() });
    return service;
  };
  const in_force = configInForce(config, reloader);
  const telemetry = opened('telemetry', await openTelemetry({ config, in_force, env, clock, log }));
  const database = opened('database', await openDatabase({ config, env, log, wait: 'in-background' }));
  phases.end('database');
  const limitsNow = () => reloader().config().spend_limits;
  const verified_days = () => verifiedDays(reloader().config());
  const how_to_sign_in = () => clientCommand(reloader().config().server.public_url, 'login');
  const goes_on_without = () => goesOnWithoutStore(reloader().config());
  opened('housekeeping', startHousekeeping({ database, clock, log }));
  const retention = () => reloader().config().database.retention ?? DEFAULT_RETENTION;
  opened('retention', startRetention({ database, clock, log, retention, every: everyInBackground }));
  opened('sums of usage', startUsageSums({ database, log, every: everyInBackground }));
  const revocations = opened('ended sessions', openRevocations({ database, clock, log }));
  const ended_grants = opened('ended grants', startEndedGrants({ database, revocations, clock, log }));
  const upstreams = opened(
    'states of upstreams',
    openUpstreamStates({ upstreams: config.upstreams, database, clock, log }),
  );
  const model_lists = opened('lists of models', openModelLists({ clock, log }));
  model_lists.use(config, secret);
  // Session tokens are rejected until the ended sessions are known.
  await waitAtMost(
    LISTS_TIMEOUT_MS,
    Promise.all([revocations.attempted, upstreams.attempted, model_lists.attempted()]),
  );
  const access_tokens = opened(
    'access tokens',
    new AccessTokens({ database, clock, log, groups, verified_days, how_to_sign_in, goes_on_without }),
  );
  const foundation = {
    database,
    clock,
    log,
    proxyRouteTo: (url: URL) => proxyRouteTo(url, env),
    access_tokens,
    revocations,
    session_activity: opened('session tokens in use', openSessionActivity({ database, log })),
    policy_fetches: opened('fetches of policies', openPolicyFetches({ database, clock, log })),
    model_lists,
    key_holders: opened('signing keys', openKeyHolders({ database, clock, log, held: keysInForce })),
    async catchUp() {
      access_tokens.forgetAll();
      await Promise.all([revocations.catchUp(), upstreams.catchUp()]);
    },
  };
  const ledger = new DatabaseLedger({
    database,
    clock,
    log,
    time_zone: () => limitsNow()?.time_zone ?? 'UTC',
    reserve_timeout_ms: () => (limitsNow()?.store_timeout_seconds ?? DEFAULT_STORE_TIMEOUT_SECONDS) * 1000,
    leases: { lanes: database.lanes, listen: database.listen, is_on: () => limitsNow()?.lease !== 'off' },
  });
  opened('ledger', ledger);
  const spool_dir = () => limitsNow()?.spool_dir;
  const writeRecords: WriteRecords = (texts, database_id) => audit.writeAgain(texts, database_id);
  const needed = goes_on_without;
  const spooling = new SpoolingLedger({ ledger, spool_dir, needed, writeRecords, clock, log });
  opened('spool', spooling);
  const audit = opened('audit log', new OpenAuditLog({ database, clock, log, spool: spooling }));
  const live = opened('live records', openLiveRecords({ database, log, every: everyInBackground, stopping }));
  observeServices(telemetry.metrics, { ledger, spooling, audit, upstreams });
  const lasting: Omit<SharedServices, 'config' | 'models' | 'policies' | 'secret' | 'tokens'> = {
    clock,
    log,
    audit,
    ledger: spooling,
    upstreams,
    limits_in_force: createLimitsInForce({ database, clock }),
    health: createHealth({
      clock,
      log,
      stopping,
      reloads: () => reloader().state(),
      upstreams: () => summarizeUpstreams(upstreams.list()),
      tries: {
        write: () => ledger.sayAlive(),
        read: database.check,
        spool: () => spooling.probe(),
        knowsCallers: () =>
          access_tokens.knowsSome() || (reloader().config().auth?.oidc !== undefined && revocations.known),
        servesWithoutReservations: () => servesWithoutReservations(reloader().config()),
        pipelines: () => reloader().storeNeeds(),
      },
    }),
    condition: compileCondition,
    // Every stage context is a RequestContext; only the engine sees all of its facts.
    facts: (ctx) => (ctx as unknown as RequestContext).facts,
    record: (ctx, now) => (ctx as unknown as RequestContext).auditRecord(now),
  };
  return { lasting, foundation, database, ended_grants, upstreams, live, telemetry };
}

async function listen(server: GatewayServer, config: GatewayConfig, place: string | undefined): Promise<string> {
  const scheme = config.server.tls === undefined ? 'http' : 'https';
  try {
    const { host, port } = await server.listen();
    return `${scheme}://${reachableHost(host)}:${port}`;
  } catch (error) {
    throw explainListenError(error as NodeJS.ErrnoException, config.server.listen, place);
  }
}

function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}
