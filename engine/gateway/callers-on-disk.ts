import type { GatewayConfig } from '../contract/config.ts';
import type { Clock, Log } from '../contract/services.ts';
import { KnownCallers } from '../identity/known-callers/known-callers.ts';
import { sealingKeys } from '../identity/known-callers/sealing-keys.ts';
import type { OpenRevocations } from '../identity/sessions/revocations.ts';
import type { AccessTokens } from '../identity/tokens/access-tokens.ts';
import type { DatabaseLedger } from '../money/ledger/ledger.ts';
import { goesOnWithoutStore, servesWithoutReservations } from '../money/spool/without-store.ts';
import type { Database } from '../store/database.ts';
import { databaseAddress } from '../store/database-server.ts';
import { configInForce } from './config-in-force.ts';
import type { Reloader } from './reload.ts';

interface Given {
  readonly config: GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
  readonly access_tokens: AccessTokens;
  readonly revocations: OpenRevocations;
  readonly ledger: DatabaseLedger;
  /** Until there is one, the configuration of the start is in force. */
  reloader(): Reloader | undefined;
}

/** Opens what keeps callers on disk for a start without the database, and takes in whom the process before this one kept. */
export async function openKnownCallers(given: Given): Promise<KnownCallers> {
  const { env, clock, log, access_tokens, revocations, ledger, reloader } = given;
  const inForce = configInForce(given.config, reloader);
  const callers = new KnownCallers({
    access_tokens,
    revocations,
    clock,
    log,
    database_address: databaseAddress(given.config, env),
    databaseId: () => ledger.databaseId(),
    spool_dir: () => inForce().spend_limits?.spool_dir,
    needed: () => goesOnWithoutStore(inForce()),
    keys: () => sealingKeys(inForce(), env),
  });
  await callers.read();
  return callers;
}

/** Says in the log what becomes of requests at a gateway that has started while its database is away. Never rejects. */
export async function tellStart(
  { config, access_tokens, revocations, log }: Pick<Given, 'config' | 'access_tokens' | 'revocations' | 'log'>,
  database: Pick<Database, 'check'>,
  callers: Pick<KnownCallers, 'problem'>,
): Promise<void> {
  if ((await database.check()).ok) return;
  if (!servesWithoutReservations(config)) {
    const problem = 'the gateway starts without its database, and refuses requests until it is there';
    log.warn({ remedy: 'spend_limits.on_store_error: allow serves callers known from before' }, problem);
    return;
  }
  const sessions = config.auth?.oidc !== undefined && revocations.known;
  const access_tokens_known = access_tokens.knowsSome();
  if (access_tokens_known || sessions) {
    const fields = { access_tokens: access_tokens_known, sessions };
    log.warn(
      fields,
      'the gateway starts without its database, and serves callers known from before without reservations',
    );
    return;
  }
  const problem =
    'the gateway starts without its database and knows no caller from before: it refuses requests until it is there';
  log.warn({ reason: callers.problem }, problem);
}
