/** The scopes of a sign-in, and claims that are missing without a scope. */
import type { OidcConfig } from '../../../base/contract/config.ts';
import { claimRoot, wantedClaims } from './claims.ts';

export interface SignInScopes {
  readonly requested: readonly string[];
  /** `scopes_supported` of the provider (OpenID Connect Discovery section 3); absent without a list. */
  readonly listed?: readonly string[] | undefined;
  /** Granted scopes of the token endpoint (RFC 6749 section 5.1); absent if unstated. */
  readonly granted?: readonly string[] | undefined;
}

/** Claims that may be missing without a scope. */
export interface ScopeGap {
  readonly claims: readonly string[];
  /** `certain`: the scope with the claim is not requested. `likely`: by its name. `not_granted`: requested, and not granted. */
  readonly kind: 'certain' | 'likely' | 'not_granted';
  /** Rest of a sentence for an administrator, with the provider as its subject. */
  readonly hint: string;
}

type FoundGap = Pick<ScopeGap, 'kind'> & { readonly claim: string; readonly scopes: readonly string[] };

const DEFAULT_SCOPES = ['openid', 'profile', 'email'];

/** Standard claims by scope (OpenID Connect Core section 5.4). */
const STANDARD_CLAIMS: Readonly<Record<string, readonly string[]>> = {
  email: ['email', 'email_verified'],
  profile: [
    ...['name', 'family_name', 'given_name', 'middle_name', 'nickname', 'preferred_username', 'profile', 'picture'],
    ...['website', 'gender', 'birthdate', 'zoneinfo', 'locale', 'updated_at'],
  ],
  phone: ['phone_number', 'phone_number_verified'],
  address: ['address'],
};

/** Names of scopes for groups and roles that differ from the claim: `groups_name`, `urn:...:project:roles`. */
const LIKE_GROUPS = /(?:^|[:/._-])(?:groups?|roles?|member_?of|memberships?)(?:$|[:/._-])/i;
const MAX_NAMED = 5;

/** The texts of a list in a discovery document; `undefined` without one. */
export function textsOf(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : undefined;
}

/** The scopes to request from a provider with a list of supported ones. */
export function requestedScopes(
  { scopes }: Pick<OidcConfig, 'scopes'>,
  listed: readonly string[] | undefined,
): readonly string[] {
  const offline = listed?.includes('offline_access') ? ['offline_access'] : [];
  return [...new Set(['openid', ...(scopes ?? [...DEFAULT_SCOPES, ...offline])])];
}

/** Finds claims for admission that may be missing without a scope. */
export function scopeGaps(
  oidc: OidcConfig,
  { requested, listed, granted = requested }: SignInScopes,
): readonly ScopeGap[] {
  const gaps = wantedClaims(oidc).flatMap((claim): FoundGap[] => {
    const { scopes, is_certain } = scopesOf(claim, oidc, listed ?? []);
    const wanted = scopes.filter((scope) => requested.includes(scope));
    if (wanted.some((scope) => granted.includes(scope))) return [];
    if (wanted.length > 0) return [{ claim, kind: 'not_granted', scopes: wanted }];
    // A provider without a list supports the standard scopes.
    const offered = listed === undefined ? scopes : scopes.filter((scope) => listed.includes(scope));
    if (offered.length === 0) return [];
    if (is_certain) return [{ claim, kind: 'certain', scopes: offered.slice(0, 1) }];
    return [{ claim, kind: 'likely', scopes: offered }];
  });
  const missing = gaps.flatMap(({ kind, scopes }) => (kind === 'not_granted' ? [] : scopes[0]!));
  const remedy = `set auth.oidc.scopes to [${[...new Set([...requested, ...missing])].join(', ')}]`;
  const by_scopes = Map.groupBy(gaps, ({ kind, scopes }) => JSON.stringify([kind, scopes]));
  return [...by_scopes.values()].map((alike) => {
    const { kind, scopes } = alike[0]!;
    const claims = alike.map(({ claim }) => claim);
    const scope = named('scope', scopes);
    const claim = named('claim', claims);
    const hints = {
      certain: `lists the ${scope}, which contains the ${claim} and is not requested: ${remedy}`,
      likely: `lists the ${scope}, which is not requested: if the ${claim} is missing without it, ${remedy}`,
      not_granted: `did not grant the ${scope}, which contains the ${claim}: allow it for the client at the provider`,
    };
    return { claims, kind, hint: hints[kind] };
  });
}

function named(what: string, names: readonly string[]): string {
  return `${what}${names.length === 1 ? '' : 's'} ${names.slice(0, MAX_NAMED).join(', ')}`;
}

/** The scopes of a claim, the likeliest first: the standard one, else one of the same name, else those named like groups. */
function scopesOf(
  claim: string,
  { groups_claim }: OidcConfig,
  listed: readonly string[],
): { readonly scopes: readonly string[]; readonly is_certain: boolean } {
  const root = claimRoot(claim);
  const standard = Object.keys(STANDARD_CLAIMS).find((scope) => STANDARD_CLAIMS[scope]!.includes(root));
  if (standard !== undefined) return { scopes: [standard], is_certain: true };
  const is_certain = listed.includes(root);
  const alike = claim === groups_claim ? listed.filter((scope) => scope !== root && LIKE_GROUPS.test(scope)) : [];
  return { scopes: is_certain ? [root, ...alike] : alike, is_certain };
}
