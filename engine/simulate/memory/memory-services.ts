/** Everything a stage may ask for, without anything outside the process. */

import type { GatewayConfig, UpstreamConfig } from '../../contract/config.ts';
import type { AuditRecord, SharedServices } from '../../contract/services.ts';
import { createManagedPolicies } from '../../identity/policies/managed-policies.ts';
import type { FrozenClock } from '../../kit/clock.ts';
import { servesWithoutReservations } from '../../money/spool/without-store.ts';
import { compileCondition } from '../../rules/compile.ts';
import type { RequestContext } from '../../run/context.ts';
import type { Loaded } from '../../source/spec.ts';
import { createSecrets } from '../../store/secrets.ts';
import { createModelCatalog } from '../../upstreams/models.ts';
import {
  createUpstreamStates,
  type LastingUpstreamStates,
  tellUpstreams,
} from '../../upstreams/states/upstream-states.ts';
import type { LogRecord } from '../suite/played.ts';
import { MemoryLedger } from './memory-ledger.ts';
import { type MemoryTokens, openMemoryTokens } from './memory-tokens.ts';

/** Stands in every made-up secret, so that one that gets out is recognised. */
export const SECRET_MARK = 'secret-of-';

/** What stages said on one request. */
export interface Recorded {
  readonly audit: AuditRecord[];
  readonly log: LogRecord[];
  readonly refused: { destination: string; stage: string | undefined }[];
}

function createLog(records: LogRecord[]): SharedServices['log'] {
  const at = (level: LogRecord['level']) => (fields: object, message: string) => {
    const error = 'err' in fields ? fields.err : undefined;
    records.push({ level, message, reason: error instanceof Error ? error.message : undefined });
  };
  return { debug() {}, info() {}, warn: at('warn'), error: at('error') };
}

/** Services in memory, and what tests do with them. */
export interface MemoryServices {
  readonly services: SharedServices;
  readonly ledger: MemoryLedger;
  readonly tokens: MemoryTokens;
  readonly states: LastingUpstreamStates;
  readonly recorded: Recorded;
}

/**
 * Opens services on a stopped clock. While `isAway()` says so, the database seems to be away.
 * @param options.upstreams as they are configured: which of them have an address and a credential in common.
 */
export function openMemoryServices(options: {
  readonly loaded: Loaded & { readonly config: GatewayConfig };
  readonly upstreams: readonly UpstreamConfig[];
  readonly clock: FrozenClock;
  readonly isAway: () => boolean;
}): MemoryServices {
  const { loaded, clock, isAway } = options;
  const { config } = loaded;
  const recorded: Recorded = { audit: [], log: [], refused: [] };
  const log = createLog(recorded.log);
  const ledger = new MemoryLedger({ clock, time_zone: config.spend_limits?.time_zone ?? 'UTC', isAway });
  const tokens = openMemoryTokens({ clock, log, isAway });
  const made_up = new Proxy({}, { get: (_, name) => `${SECRET_MARK}${String(name)}` });
  const keepRecord = (record: AuditRecord) => {
    // One record may go to the table and to a file.
    if (!recorded.audit.includes(record)) recorded.audit.push(record);
  };
  const policies = createManagedPolicies(config, loaded.policies);
  const states = createUpstreamStates({ upstreams: options.upstreams, clock, log, random: () => 0.5 });
  const services: SharedServices = {
    config,
    clock,
    log,
    tokens,
    ledger,
    upstreams: states,
    limits_in_force: { changes: async (name) => ledger.counters.changes(name) },
    secret: createSecrets(loaded, made_up, () => {}),
    models: createModelCatalog(config, policies),
    policies,
    audit: { write: keepRecord, appendLine: (_path, record) => keepRecord(record) },
    health: {
      check: async () => ({
        database: { ok: !isAway(), needed: !servesWithoutReservations(config) },
        spool: { ok: true, state: servesWithoutReservations(config) ? 'ok' : 'unused' },
        upstreams: { ok: true, told: tellUpstreams(states.list()) },
      }),
    },
    condition: compileCondition,
    // Contexts are the engine's own, also those of contained stages.
    facts: (ctx) => (ctx as unknown as RequestContext).copyFacts(),
    decisions: (ctx, told) => (ctx as unknown as RequestContext).decisions(told),
  };
  return { services, ledger, tokens, states, recorded };
}
