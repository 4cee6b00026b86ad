import { randomUUID } from 'node:crypto';
import type { GatewayConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import type {
  AuditRecord,
  Clock,
  HealthPart,
  Log,
  Principal,
  SharedServices,
} from '../../../base/contract/services.ts';
import type { FrozenClock } from '../../../base/kit/clock.ts';
import { compileCondition } from '../../../base/rules/compile.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import type { Database } from '../../../base/store/database.ts';
import { createSecrets } from '../../../base/store/secrets.ts';
import { servesWithoutReservations } from '../../../domain/budget/limits/spend-limits.ts';
import { AccessTokens } from '../../../domain/identity/tokens/access-tokens.ts';
import { generateToken, hashToken } from '../../../domain/identity/tokens/token-format.ts';
import { createManagedPolicies } from '../../../domain/policies/managed-policies.ts';
import { createModelCatalog } from '../../../domain/upstreams/models.ts';
import { createUpstreamStates, summarizeUpstreams } from '../../../domain/upstreams/states/upstream-states.ts';
import type { RequestContext } from '../../../pipeline/run/context.ts';
import type { LogRecord } from '../suite/play.ts';
import { MemoryLedger } from './memory-ledger.ts';

/** Prefix of every fake secret, to detect leaks. */
export const SECRET_MARK = 'secret-of-';

type Refused = { destination: string; stage: string | undefined };

function createLog(records: LogRecord[]): SharedServices['log'] {
  const at = (level: LogRecord['level']) => (fields: object, message: string) => {
    const error = 'err' in fields ? fields.err : undefined;
    records.push({ level, message, reason: error instanceof Error ? error.message : undefined });
  };
  return { debug() {}, info() {}, warn: at('warn'), error: at('error') };
}

/** Services on a stopped clock. `isAway()`: an outage of the database. `options.upstreams`: with real addresses and credentials. */
export function openMemoryServices(options: {
  readonly loaded: Pick<Loaded, 'pipelines' | 'policies'> & { readonly config: GatewayConfig };
  readonly upstreams: readonly UpstreamConfig[];
  readonly clock: FrozenClock;
  readonly isAway: () => boolean;
}) {
  const { loaded, clock, isAway } = options;
  const { config } = loaded;
  const recorded = { audit: [] as AuditRecord[], log: [] as LogRecord[], refused: [] as Refused[] };
  const log = createLog(recorded.log);
  const ledger = new MemoryLedger({ clock, time_zone: config.spend_limits?.time_zone ?? 'UTC', isAway });
  const tokens = openMemoryTokens({ clock, log, isAway });
  const fake_env = new Proxy({}, { get: (_, name) => `${SECRET_MARK}${String(name)}` });
  const keepRecord = (record: AuditRecord) => {
    // A record may be written to the table and to a file.
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
    limits_in_force: { changes: async (name) => ledger.changes(name) },
    secret: createSecrets(loaded, fake_env, () => {}),
    models: createModelCatalog(config, policies),
    policies,
    audit: { write: keepRecord, appendLine: (_path, record) => keepRecord(record) },
    health: {
      check: async (): Promise<Readonly<Record<string, HealthPart>>> => ({
        database: { ok: !isAway(), needed: !servesWithoutReservations(config) },
        spool: { ok: true, state: servesWithoutReservations(config) ? 'ok' : 'unused' },
        upstreams: { ok: true, public_details: summarizeUpstreams(states.list()) },
      }),
    },
    condition: compileCondition,
    // Every stage context is a RequestContext, also of contained stages.
    facts: (ctx) => (ctx as unknown as RequestContext).copyFacts(),
    record: (ctx, now) => (ctx as unknown as RequestContext).auditRecord(now),
  };
  return { services, ledger, tokens, states, recorded };
}

interface CredentialInput {
  readonly id: string;
  readonly user: string;
  readonly name?: string | undefined;
  /** Token group; a session may have none. */
  readonly group: string | undefined;
  /** Groups of the identity provider, and the roles of a session. */
  readonly groups: readonly string[];
  readonly roles: readonly string[];
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  readonly expires_at?: number | undefined;
  readonly revoked_at?: number | undefined;
}

/** In-memory credentials; the gateway's own code verifies access tokens. */
export type MemoryTokens = ReturnType<typeof openMemoryTokens>;

/** Opens an empty set of credentials. While `isAway()`, only cached tokens are verified. */
function openMemoryTokens(options: { readonly clock: Clock; readonly log: Log; readonly isAway: () => boolean }) {
  const { clock, log, isAway } = options;
  const rows = new Map<string, object>();
  const table: Pick<Database, 'query' | 'listen'> = {
    async query<Row>(statement: string, _text: string, [hashes]: readonly unknown[]): Promise<Row[]> {
      if (isAway()) throw new StageError('store_unavailable', 'The database is away in this test.');
      return statement === 'token_lookup'
        ? ((hashes as string[]).flatMap((hash) => rows.get(hash) ?? []) as Row[])
        : [];
    },
    async listen() {},
  };
  const access = new AccessTokens({ database: table, clock, log, every: () => () => {} });
  const sessions = new Map<string, () => Principal>();
  const dateOf = (moment: number | undefined) => (moment === undefined ? null : new Date(moment));
  return {
    verify: (token: string) => sessions.get(token)?.() ?? access.verify(token),
    signIn(input: CredentialInput) {
      const token = `session-${randomUUID()}`;
      const principal = principalOf(input);
      sessions.set(token, () => {
        const { revoked_at = Infinity, expires_at = Infinity } = input;
        if (clock.now() >= revoked_at) throw new StageError('credential_revoked', 'This session was ended.');
        if (clock.now() >= expires_at) throw new StageError('credential_expired', 'This session has expired.');
        return principal;
      });
      return token;
    },
    add({ id, user, name = 'test', group, groups, team, project, expires_at, revoked_at }: CredentialInput) {
      const token = generateToken();
      const hash = hashToken(token);
      const email = user.toLowerCase();
      const dates = { expires_at: dateOf(expires_at), revoked_at: dateOf(revoked_at) };
      const about = { token_group: group, team: team ?? null, project: project ?? null, email, groups };
      rows.set(hash, { hash, id, name, principal_id: `user:${email}`, ...about, ...dates });
      return token;
    },
  };
}

function principalOf({ id, user, group, groups, roles, team, project }: CredentialInput): Principal {
  const email = user.toLowerCase();
  const token = Object.freeze({ id, name: 'sign-in', group });
  const lists = { groups: Object.freeze([...groups]), roles: Object.freeze([...roles]) };
  return Object.freeze({ id: `user:${email}`, email, kind: 'session', ...lists, team, project, token });
}
