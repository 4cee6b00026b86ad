import type { AuthConfig, GatewayConfig, OidcConfig } from '../../base/contract/config.ts';
import type { Clock, Log } from '../../base/contract/services.ts';
import type { Way } from '../../base/kit/net/way.ts';
import type { Database } from '../../base/store/database.ts';
import { type Admission, admit, isVerified, mayStay, type Person } from './provider/admit.ts';
import type { DecidingGroups } from './provider/deciding-groups.ts';
import { type Claims, type IdentityProvider, redirectUriOf } from './provider/provider.ts';
import { OpenIdProvider } from './provider/provider-client.ts';
import type { SignInScopes } from './provider/scopes.ts';
import { type AttemptLimits, createAttemptLimits } from './sessions/attempt-limits.ts';
import { type ClaimProblem, claimProblem } from './sessions/bindings.ts';
import { type ConsoleSessions, createConsoleSessions } from './sessions/console-sessions.ts';
import { createDeviceGrants, type DeviceGrants } from './sessions/device-grants.ts';
import type { KeyHolders } from './sessions/key-holders.ts';
import { createSessionTokens, type Revocations, type SessionTokens } from './sessions/session-tokens.ts';
import { createSessions, type Sessions, type Sightings } from './sessions/sessions.ts';

export interface Identity {
  readonly provider: IdentityProvider;
  readonly tokens: SessionTokens;
  readonly sessions: Sessions;
  readonly console_sessions: ConsoleSessions;
  readonly device_grants: DeviceGrants;
  readonly attempts: AttemptLimits;
  /** Whether somebody the identity provider knows may use the gateway; the scopes are those of the sign-in. */
  admit(claims: Claims, scopes?: SignInScopes): Admission;
  claimProblem(person: Person): Promise<ClaimProblem | undefined>;
  /** Resolves when what was ended by now is refused by this process; the others follow within a second. */
  catchUp(): Promise<void>;
  isVerified(person: Pick<Person, 'issuer'>): boolean;
}

/** Requests to the provider that a refresh can take: discovery document, token endpoint, keys, userinfo endpoint. */
const REFRESH_REQUESTS = 4;
const REFRESH_REST_SECONDS = 20;

/** `auth` of a configuration that has sign-in. */
type SignInConfig = AuthConfig & { readonly oidc: OidcConfig };

export interface IdentityFoundation {
  readonly database: Pick<Database, 'query'>;
  readonly revocations: Revocations;
  readonly sightings: Sightings;
  readonly key_holders: KeyHolders;
  /** Resolves when this process refuses whatever was ended by now. */
  catchUp(): Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
  /** How the addresses of the identity provider are reached; directly where nothing is said. */
  readonly wayTo?: (url: URL) => Way;
}

/**
 * Makes sign-in; `undefined` where the configuration has none.
 * @param groups what the configuration goes by; absent: all groups. Raises StartError for a key that can't be used.
 */
export function createIdentity(
  config: GatewayConfig,
  secret: (name: string) => string,
  { database, revocations, sightings, key_holders, catchUp, clock, log, wayTo }: IdentityFoundation,
  groups?: DecidingGroups,
): Identity | undefined {
  const { auth } = config;
  if (auth?.oidc === undefined) return undefined;
  const sign_in: SignInConfig = { ...auth, oidc: auth.oidc };
  const { refresh_days } = auth.session;
  const token_seconds = auth.session.ttl_minutes * 60;
  const refresh_seconds = REFRESH_REQUESTS * sign_in.oidc.timeout_seconds + REFRESH_REST_SECONDS;
  const redirect_uri = redirectUriOf(config);
  const tokens = createSessionTokens({
    config,
    secret,
    clock,
    revocations,
    sightings,
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
  const { marks, key_ids } = tokens;
  // Others are to know of these keys before anything is signed with them; what is issued makes sure.
  key_holders
    .announce(key_ids)
    .catch((error) => log.debug({ err: error }, 'which signing keys this gateway has is said later'));
  return {
    provider: new OpenIdProvider({ oidc: sign_in.oidc, secret, redirect_uri, log, clock, wayTo }),
    tokens,
    sessions: createSessions({ database, clock, onEnded: catchUp, refresh_seconds, token_seconds, marks }),
    console_sessions: createConsoleSessions({ database, clock, marks }),
    device_grants: createDeviceGrants({ database, clock, refresh_days, marks, onEnded: catchUp }),
    attempts: createAttemptLimits({ database, clock, limits: auth.limits, log }),
    admit: (claims, scopes) => admit(claims, sign_in, scopes),
    claimProblem: (person) => claimProblem(database, person),
    catchUp,
    isVerified: (person) => isVerified(person, sign_in.oidc),
  };
}
