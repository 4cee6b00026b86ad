import type { LedgerIdentity } from '../../contract/services.ts';

/** Who asked whom for what, of something that says more. */
export function ledgerIdentity(of: LedgerIdentity): LedgerIdentity {
  const { request_id, protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model } = of;
  return { request_id, protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model };
}
