import type { GatewayConfig } from '../../base/contract/config.ts';
import type { Way } from '../../base/kit/net/proxy-route.ts';
import type { Background } from './background.ts';
import { admit, isVerified, mayStay, type Person } from './provider/admit.ts';
import type { DecidingGroups } from './provider/deciding-groups.ts';
import { type Claims, redirectUriOf } from './provider/provider.ts';
import { createIdentityProvider } from './provider/provider-client.ts';
import type { SignInScopes } from './provider/scopes.ts';
import { createAttemptLimits } from './sessions/attempt-limits.ts';
import { createConsoleSessions } from './sessions/console-sessions.ts';
import { createDeviceGrants } from './sessions/device-grants.ts';
import type { KeyHolders } from './sessions/key-holders.ts';
import { claimProblem } from './sessions/people.ts';
import { createSessionTokens } from './sessions/session-tokens.ts';
import { createSessions, type Revocations, type SessionActivity } from './sessions/sessions.ts';

/** Sign-in of a configuration. */
export type Identity = NonNullable<ReturnType<typeof createIdentity>>;

/** Most requests to the provider per refresh: discovery document, token endpoint, keys, userinfo endpoint. */
const REFRESH_REQUESTS = 4;
const REFRESH_REST_SECONDS = 20;

export interface IdentityFoundation extends Omit<Background, 'every'> {
  readonly revocations: Pick<Revocations, 'has'>;
  readonly session_activity: SessionActivity;
  readonly key_holders: KeyHolders;
  /** Resolves when this process rejects all sessions ended so far; other processes follow within a second. */
  catchUp(): Promise<void>;
  readonly proxyRouteTo?: (url: URL) => Way;
}

/** Creates sign-in; `undefined` if the configuration has none. Raises StartError for an unusable key. */
export function createIdentity(
  config: GatewayConfig,
  secret: (name: string) => string,
  { database, revocations, session_activity, key_holders, catchUp, clock, log, proxyRouteTo }: IdentityFoundation,
  groups?: DecidingGroups,
) {
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
  const options = { oidc: sign_in.oidc, secret, redirect_uri, log, clock, proxyRouteTo };
  return {
    provider: createIdentityProvider(options),
    tokens,
    sessions: createSessions({ database, clock, onEnded: catchUp, refresh_seconds, token_seconds, tags }),
    console_sessions: createConsoleSessions({ database, clock, tags }),
    device_grants: createDeviceGrants({ database, clock, refresh_days, tags, onEnded: catchUp }),
    attempts: createAttemptLimits({ database, clock, limits: auth.limits, log }),
    admit: (claims: Claims, scopes?: SignInScopes) => admit(claims, sign_in, scopes),
    claimProblem: (person: Person) => claimProblem(database, person),
    /** Resolves when this process rejects all sessions ended so far; other processes follow within a second. */
    catchUp,
    isVerified: (person: Pick<Person, 'issuer'>) => isVerified(person, sign_in.oidc),
  };
}
