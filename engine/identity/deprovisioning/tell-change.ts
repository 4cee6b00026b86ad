import type { AdminAction } from '../../audit/admin-changes.ts';
import type { Clock } from '../../contract/services.ts';
import type { Telemetry } from '../../contract/telemetry.ts';

/** Tells telemetry of a change that the gateway made by itself just now, because of what the identity provider says. */
export function tellOwnChange(
  { telemetry, clock }: { readonly telemetry: Pick<Telemetry, 'operation'>; readonly clock: Pick<Clock, 'now'> },
  action: AdminAction,
): void {
  const attributes = { 'gateway.admin.action': action, 'gateway.admin.actor_kind': 'gateway' };
  telemetry.operation({ name: 'gateway.admin_change', attributes, began_at: clock.now(), duration_ms: 0 });
}
