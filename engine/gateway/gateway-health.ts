import type { Clock, Health, Log, UpstreamStates } from '../contract/services.ts';
import type { OpenRevocations } from '../identity/sessions/revocations.ts';
import type { AccessTokens } from '../identity/tokens/access-tokens.ts';
import type { DatabaseLedger } from '../money/ledger/ledger.ts';
import type { SpoolingLedger } from '../money/spool/spooling-ledger.ts';
import { servesWithoutReservations } from '../money/spool/without-store.ts';
import type { Database } from '../store/database.ts';
import { createHealth } from '../store/health.ts';
import { tellUpstreams } from '../upstreams/states/told-states.ts';
import type { Reloader } from './reload.ts';

/** Readiness of a running gateway, whose configuration a reload can change. */
export function createGatewayHealth(parts: {
  readonly database: Pick<Database, 'check'>;
  readonly ledger: Pick<DatabaseLedger, 'sayAlive'>;
  readonly spooling: Pick<SpoolingLedger, 'probe'>;
  readonly access_tokens: Pick<AccessTokens, 'knowsSome'>;
  readonly revocations: Pick<OpenRevocations, 'known'>;
  readonly upstreams: Pick<UpstreamStates, 'list'>;
  readonly clock: Clock;
  readonly log: Log;
  reloader(): Reloader;
  stopping(): boolean;
}): Health {
  const { database, ledger, spooling, access_tokens, revocations, upstreams, clock, log, reloader, stopping } = parts;
  const signsIn = () => reloader().config().auth?.oidc !== undefined;
  return createHealth({
    clock,
    log,
    stopping,
    reloads: () => reloader().state(),
    upstreams: () => tellUpstreams(upstreams.list()),
    tries: {
      write: () => ledger.sayAlive(),
      read: database.check,
      spool: () => spooling.probe(),
      knowsCallers: () => access_tokens.knowsSome() || (signsIn() && revocations.known),
      servesWithoutReservations: () => servesWithoutReservations(reloader().config()),
      pipelines: () => reloader().storeNeeds(),
    },
  });
}
