import type { OidcConfig } from '../../contract/config.ts';
import type { Claims } from './provider.ts';

/**
 * The value of a claim, found by its name or, where that begins with a slash, by a JSON pointer (RFC 6901); `undefined`
 * when there is none.
 */
export function lookUpClaim(claims: Claims, name_or_pointer: string): unknown {
  let value: unknown = claims;
  for (const step of stepsOf(name_or_pointer)) {
    if (typeof value !== 'object' || value === null) return undefined;
    if (Array.isArray(value) && !/^(?:0|[1-9]\d*)$/.test(step)) return undefined;
    if (!Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string, unknown>)[step];
  }
  return value;
}

/** The name of the top-level claim in which `lookUpClaim` looks. */
export function claimRoot(name_or_pointer: string): string {
  return stepsOf(name_or_pointer)[0] ?? '';
}

/** Whether the provider says that it has a claim but did not send it, as some do for long lists (OpenID Connect Core section 5.6.2). */
export function isWithheld(claims: Claims, name_or_pointer: string): boolean {
  const elsewhere = claims._claim_names;
  if (typeof elsewhere !== 'object' || elsewhere === null) return false;
  return Object.hasOwn(elsewhere, claimRoot(name_or_pointer)) && lookUpClaim(claims, name_or_pointer) === undefined;
}

function stepsOf(name_or_pointer: string): readonly string[] {
  if (!name_or_pointer.startsWith('/')) return [name_or_pointer];
  const steps = name_or_pointer.slice(1).split('/');
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/**
 * The claims of an ID token completed by those of the userinfo endpoint; the ID token decides where both say something.
 * Whether an address is verified is only taken from where that address is.
 * @param lacking names or pointers of claims that the ID token does not have
 */
export function completeClaims(id_token: Claims, userinfo: Claims, lacking: readonly string[], email: string): Claims {
  const roots = lacking.map(claimRoot).filter((root) => Object.hasOwn(userinfo, root));
  const supplied = Object.fromEntries(roots.map((root) => [root, userinfo[root]]));
  const { email_verified: _, ...claims } = { ...userinfo, ...id_token, ...supplied };
  const address = lookUpClaim(claims, email);
  const says = [id_token, userinfo].find(
    (each) => lookUpClaim(each, email) === address && Object.hasOwn(each, 'email_verified'),
  );
  return says === undefined ? claims : { ...claims, email_verified: says.email_verified };
}

/** Whether the address is verified: asked for wherever it may be told, since a no counts even where it may be missing. */
export const VERIFIED = 'email_verified';

/** Claims that decide about the person. */
export function wantedClaims(oidc: OidcConfig): readonly string[] {
  const { email_claim, groups_claim, team_claim, project_claim, email_verification } = oidc;
  const verified = email_verification === 'required' ? VERIFIED : undefined;
  return [email_claim, groups_claim, team_claim, project_claim, verified].filter((claim) => claim !== undefined);
}

/** Whether the provider says anything about a claim. */
export function isTold(claims: Claims, claim: string): boolean {
  return (lookUpClaim(claims, claim) ?? undefined) !== undefined;
}
