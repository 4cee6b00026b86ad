import type { OpenAccessTokens } from '../services/access-tokens.ts';
import type { Database } from '../services/database.ts';
import { createHealth } from '../services/health.ts';
import type { OpenRevocations } from '../services/identity/revocations.ts';
import type { OpenLedger } from '../services/ledger.ts';
import type { SpoolingLedger } from '../services/spooling-ledger.ts';
import { servesWithoutHolds } from '../services/without-store.ts';
import type { Clock, Health, Log } from '../stage-services.ts';
import type { Reloader } from './reload.ts';

/** Readiness of a running gateway, whose configuration a reload can change. */
export function createGatewayHealth(parts: {
  readonly database: Pick<Database, 'check'>;
  readonly ledger: Pick<OpenLedger, 'sayAlive'>;
  readonly spooling: Pick<SpoolingLedger, 'tryOut'>;
  readonly access_tokens: Pick<OpenAccessTokens, 'knowsSome'>;
  readonly revocations: Pick<OpenRevocations, 'known'>;
  readonly clock: Clock;
  readonly log: Log;
  reloader(): Reloader;
  stopping(): boolean;
}): Health {
  const { database, ledger, spooling, access_tokens, revocations, clock, log, reloader, stopping } = parts;
  const signsIn = () => reloader().config().auth?.oidc !== undefined;
  return createHealth({
    clock,
    log,
    stopping,
    reloads: () => reloader().state(),
    tries: {
      write: ledger.sayAlive,
      read: database.check,
      spool: spooling.tryOut,
      knowsCallers: () => access_tokens.knowsSome() || (signsIn() && revocations.known),
      servesWithoutHolds: () => servesWithoutHolds(reloader().config()),
      holdsMoney: () => reloader().holdsMoney(),
    },
  });
}
