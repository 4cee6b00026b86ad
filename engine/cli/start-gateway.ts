import type { Clock, Log, Services, StageDefinition } from '../api.ts';
import type { GatewayConfig } from '../config.ts';
import { createServer, type GatewayServer } from '../http/server.ts';
import { compileCondition } from '../rules/compile.ts';
import type { RequestContext } from '../run/context.ts';
import { buildPlan } from '../run/plan.ts';
import { openAuditLog } from '../services/audit-log.ts';
import { systemClock } from '../services/clock.ts';
import { type Database, openDatabase } from '../services/database.ts';
import { createHealth } from '../services/health.ts';
import { openLedger } from '../services/ledger.ts';
import { createModelCatalog } from '../services/models.ts';
import { createSecrets } from '../services/secrets.ts';
import { EXIT_CONFIGURATION, StartError } from '../services/start-error.ts';
import { openAccessTokens } from '../services/tokens.ts';
import { type ClosingStep, closeInTurn } from './close-in-turn.ts';
import { explainListenError } from './listen-error.ts';
import { loadToRun } from './load-configuration.ts';

/** A gateway that accepts requests. */
export interface RunningGateway {
  /** Where it listens, as a client on this machine reaches it. */
  readonly url: string;
  readonly database: Database;
  /** Lets running requests finish, writes down what is still in memory, lets go of everything. Never rejects. */
  close(): Promise<void>;
}

/** Longest a closing step other than the draining of requests may take, in seconds; the services keep to 5 themselves. */
const STEP_SECONDS = 8;
/** What the server may take beyond `drain_seconds` to end the requests that are left. */
const DRAIN_GRACE_SECONDS = 10;

/**
 * Starts a gateway: loads and checks the configuration, opens the services, compiles the plan, listens.
 * The database may still be away; requests get 503 until it is there.
 * Raises StartError, after letting go of whatever was opened.
 */
export async function startGateway(options: {
  readonly config_file: string;
  readonly stages: readonly StageDefinition[];
  readonly env: NodeJS.ProcessEnv;
  readonly log: Log & { hide?(secret: string): void };
  readonly clock?: Clock;
}): Promise<RunningGateway> {
  const { config_file, stages, env, log, clock = systemClock } = options;
  const { config, loaded } = await loadToRun(config_file, { stages, env, environment: 'required' });
  for (const { code, message, file, line, help } of loaded.diagnostics) log.warn({ code, file, line, help }, message);
  const secret = createSecrets(config, env, (value) => log.hide?.(value));
  const closing: ClosingStep[] = [];
  const close = () => closeInTurn(closing.splice(0).reverse(), log);
  try {
    const { services, database } = await openServices({ config, env, log, clock, secret }, closing);
    const plan = buildPlan(loaded, services);
    closing.push({ name: 'pipelines', seconds: STEP_SECONDS, close: () => plan.close() });
    const server = createServer({ config, plan: () => plan, log, clock });
    const url = await listen(server, config);
    const drain_seconds = config.server.timeouts.drain_seconds + DRAIN_GRACE_SECONDS;
    closing.push({ name: 'server', seconds: drain_seconds, close: () => server.drain() });
    log.info({ url, pipelines: loaded.pipelines.map(({ name }) => name) }, 'the gateway is listening');
    return { url, database, close };
  } catch (error) {
    await close();
    if (error instanceof StartError) throw error;
    // What passed the checks and still can't be made: a certificate that is none, a stage of the operator's own that fails.
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(`${config_file} cannot be put to work: ${reason}`, {
      exit_code: EXIT_CONFIGURATION,
      cause: error,
    });
  }
}

/** Opens what stages may ask for, and notes how to close each of them. */
async function openServices(
  given: Pick<Services, 'config' | 'log' | 'clock' | 'secret'> & { readonly env: NodeJS.ProcessEnv },
  closing: ClosingStep[],
): Promise<{ services: Services; database: Database }> {
  const { config, log, clock, secret, env } = given;
  const opened = <T extends { close(): void | Promise<void> }>(name: string, service: T): T => {
    closing.push({ name, seconds: STEP_SECONDS, close: async () => service.close() });
    return service;
  };
  const database = opened('database', await openDatabase({ config, env, log, wait: 'in-background' }));
  const time_zone = config.spend_limits?.time_zone ?? 'UTC';
  const services: Services = {
    config,
    clock,
    log,
    secret,
    tokens: opened('access tokens', openAccessTokens({ database, clock, log })),
    audit: opened('audit log', openAuditLog({ database, clock, log })),
    models: createModelCatalog(config),
    ledger: opened('ledger', openLedger({ database, clock, log, time_zone })),
    health: createHealth(database),
    condition: compileCondition,
    // Every context a stage gets is one of the engine's own; only the engine sees all of its facts at once.
    facts: (ctx) => (ctx as unknown as RequestContext).facts,
  };
  return { services, database };
}

async function listen(server: GatewayServer, config: GatewayConfig): Promise<string> {
  const scheme = config.server.tls === undefined ? 'http' : 'https';
  try {
    const { host, port } = await server.listen();
    return `${scheme}://${reachableHost(host)}:${port}`;
  } catch (error) {
    throw explainListenError(error as NodeJS.ErrnoException, config.server.listen);
  }
}

/** An address that a client on this machine can connect to, with brackets around IPv6. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}
