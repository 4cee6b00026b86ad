import type { AttemptEffect } from '../../../engine/contract/forwarding.ts';
import { FAILOVER_TABLE, type FailoverRow } from '../../../engine/upstreams/failover-table.ts';

/** The outcomes of attempts that say one of these things about the upstream. */
function outcomesThatSay(...effects: readonly AttemptEffect[]): RegExp {
  const rows = Object.entries<FailoverRow>(FAILOVER_TABLE).filter(([, { effect }]) => effects.includes(effect));
  return new RegExp(rows.map(([outcome]) => outcome).join('|'));
}

/** Outcomes that are a failure of the upstream. */
export const FAILURES = outcomesThatSay('failure', 'unreachable');
/** Outcomes that mean that the gateway's credential is worth nothing there. */
export const CREDENTIAL_REFUSED = outcomesThatSay('credential', 'permission');
