import type { OidcConfig } from '../../contract/config.ts';
import { lookUpClaim } from './claims.ts';
import type { Claims } from './provider.ts';

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
