import type { Log, Outcome, Reservation } from '../../contract/services.ts';
import type { StageContext } from '../../contract/stage.ts';

/** Hands a ledger row over. It is not waited for: the ledger keeps and retries what it cannot write yet. */
export function settleLater(
  ctx: Pick<StageContext<'request.id', never, never>, 'get' | 'trace'>,
  reservation: Reservation,
  outcome: Outcome,
  log: Log,
): void {
  const fields = { request_id: ctx.get('request.id'), trace_id: ctx.trace.trace_id };
  const settled = reservation.settle(outcome);
  settled.catch((err: unknown) => log.error({ err, ...fields }, 'a request could not be settled'));
}
