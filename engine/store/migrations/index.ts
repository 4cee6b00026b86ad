import type { SchemaMigration } from '../migrate.ts';
import { initial } from './0001_initial.ts';
import { shadowLimits } from './0002_shadow_limits.ts';
import { identity } from './0003_identity.ts';
import { limitSettings } from './0004_limit_settings.ts';
import { limits } from './0005_limits.ts';
import { ledgerUpkeep } from './0006_ledger_upkeep.ts';
import { boundPeople } from './0007_bound_people.ts';
import { timelyReservations } from './0007_timely_holds.ts';
import { billed } from './0008_billed.ts';
import { store } from './0010_store.ts';
import { refusedTokens } from './0011_refused_tokens.ts';
import { sessions } from './0011_sessions.ts';
import { signingKeys } from './0011_signing_keys.ts';
import { people } from './0012_people.ts';
import { provider } from './0014_provider.ts';
import { unseenSuccessors } from './0015_unseen_successors.ts';
import { databaseIdentity } from './0016_database_identity.ts';
import { repeatedSignIns } from './0017_repeated_sign_ins.ts';

/** All migrations, in the order they are applied. A released one never changes: add another. */
export const migrations: readonly SchemaMigration[] = [
  initial,
  shadowLimits,
  identity,
  limitSettings,
  limits,
  ledgerUpkeep,
  boundPeople,
  timelyReservations,
  billed,
  store,
  sessions,
  signingKeys,
  refusedTokens,
  people,
  provider,
  unseenSuccessors,
  databaseIdentity,
  repeatedSignIns,
];
