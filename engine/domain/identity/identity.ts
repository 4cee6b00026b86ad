import type { GatewayConfig } from '../../base/contract/config.ts';
import type { Clock, Log } from '../../base/contract/services.ts';
import type { Way } from '../../base/kit/net/proxy-route.ts';
import type { Database } from '../../base/store/database.ts';
import { type Admission, admit, isVerified, mayStay, type Person } from './provider/admit.ts';
import type { DecidingGroups } from './provider/deciding-groups.ts';
import { type Claims, type IdentityProvider, redirectUriOf } from './provider/provider.ts';
import { OpenIdProvider } from './provider/provider-client.ts';
import type { SignInScopes } from './provider/scopes.ts';
import { type AttemptLimits, createAttemptLimits } from './sessions/attempt-limits.ts';
import { type ConsoleSessions, createConsoleSessions } from './sessions/console-sessions.ts';
import { createDeviceGrants, type DeviceGrants } from './sessions/device-grants.ts';
import type { KeyHolders } from './sessions/key-holders.ts';
import { type ClaimProblem, claimProblem } from './sessions/people.ts';
import { createSessionTokens, type SessionTokens } from './sessions/session-tokens.ts';
import { createSessions, type Revocations, type SessionActivity, type Sessions } from './sessions/sessions.ts';

export interface Identity {
  readonly provider: IdentityProvider;
  readonly tokens: SessionTokens;
  readonly sessions: Sessions;
  readonly console_sessions: ConsoleSessions;
  readonly device_grants: DeviceGrants;
  readonly attempts: AttemptLimits;
  /** Decides whether a person of the identity provider may use the gateway. */
  admit(claims: Claims, scopes?: SignInScopes): Admission;
  claimProblem(person: Person): Promise<ClaimProblem | undefined>;
  /** Resolves when this process refuses all sessions ended so far; other processes follow within a second. */
  catchUp(): Promise<void>;
  isVerified(person: Pick<Person, 'issuer'>): boolean;
}

/** Most requests to the provider per refresh: discovery document, token endpoint, keys, userinfo endpoint. */
const REFRESH_REQUESTS = 4;
const REFRESH_REST_SECONDS = 20;

export interface IdentityFoundation {
  readonly database: Pick<Database, 'query'>;
  readonly revocations: Pick<Revocations, 'has'>;
  readonly session_activity: SessionActivity;
  readonly key_holders: KeyHolders;
  catchUp(): Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
  /** Proxies for the identity provider; absent: direct connections. */
  readonly proxyRouteTo?: (url: URL) => Way;
}

/**
 * Creates sign-in; `undefined` if the configuration has none.
 * @param groups groups that the configuration reads; absent: all. Raises StartError for an unusable key.
 */
export function createIdentity(
  config: GatewayConfig,
  secret: (name: string) => string,
  { database, revocations, session_activity, key_holders, catchUp, clock, log, proxyRouteTo }: IdentityFoundation,
  groups?: DecidingGroups,
): Identity | undefined {
  const { auth } = config;
  if (auth?.oidc === undefined) return undefined;
  const sign_in = { ...auth, oidc: auth.oidc };
  const { refresh_days } = auth.session;
  const token_seconds = auth.session.ttl_minutes * 60;
  const refresh_seconds = REFRESH_REQUESTS * sign_in.oidc.timeout_seconds + REFRESH_REST_SECONDS;
  const redirect_uri = redirectUriOf(config);
  const tokens = createSessionTokens({
    config,
    secret,
    clock,
    revocations,
    session_activity,
    key_holders,
    log,
    ...(groups !== undefined && { groups }),
    groupsOf: async (session_id) => {
      const [row] = await database.query<{ groups: readonly string[] }>(
        'session_groups',
        `select person -> 'groups' as groups from sessions where id = $1`,
        [session_id],
      );
      return row?.groups;
    },
    mayStay: (person) => isVerified(person, sign_in.oidc) && 'person' in mayStay(person, sign_in),
  });
  const { tags, key_ids } = tokens;
  // Announces the keys to other gateways early; issuing a token awaits it.
  key_holders.announce(key_ids).catch((error) => log.debug({ err: error }, 'could not announce the signing keys yet'));
  return {
    provider: new OpenIdProvider({ oidc: sign_in.oidc, secret, redirect_uri, log, clock, proxyRouteTo }),
    tokens,
    sessions: createSessions({ database, clock, onEnded: catchUp, refresh_seconds, token_seconds, tags }),
    console_sessions: createConsoleSessions({ database, clock, tags }),
    device_grants: createDeviceGrants({ database, clock, refresh_days, tags, onEnded: catchUp }),
    attempts: createAttemptLimits({ database, clock, limits: auth.limits, log }),
    admit: (claims, scopes) => admit(claims, sign_in, scopes),
    claimProblem: (person) => claimProblem(database, person),
    catchUp,
    isVerified: (person) => isVerified(person, sign_in.oidc),
  };
}
