import { ADMIN_ACTIONS } from '../../admin/actions.ts';
import type { Caller } from '../../admin/caller.ts';
import type { DescribedOperation } from '../../admin/description.ts';
import { asStageError } from '../../admin/problem.ts';
import { StageError } from '../../contract/errors.ts';
import type { Clock } from '../../contract/services.ts';
import type { Telemetry } from '../../contract/telemetry.ts';
import type { RequestIdentity } from '../request-identity.ts';

/** Tells telemetry of a change, or that it was refused: once, whatever comes after. */
export function beginChange(
  operation: DescribedOperation,
  { request_id, trace }: RequestIdentity,
  { telemetry, clock }: { readonly telemetry: Pick<Telemetry, 'operation'>; readonly clock: Clock },
) {
  const began_at = clock.now();
  const began = clock.monotonic();
  let actor_kind = 'none';
  let is_told = false;
  return {
    isBy({ actor }: Caller) {
      actor_kind = actor.kind;
    },
    tell({ subject, error }: { readonly subject?: string | undefined; readonly error?: unknown }) {
      if (is_told) return;
      is_told = true;
      const problem = error === undefined ? undefined : asStageError(error);
      const error_type = problem instanceof StageError ? problem.code : 'internal_error';
      telemetry.operation({
        name: 'gateway.admin_change',
        attributes: {
          'gateway.admin.action': ADMIN_ACTIONS[operation.name],
          'gateway.admin.actor_kind': actor_kind,
          'gateway.admin.subject': subject,
          'gateway.request_id': request_id,
        },
        began_at,
        duration_ms: clock.monotonic() - began,
        ...(problem !== undefined && { error_type }),
        trace,
      });
    },
  };
}
