import type { Clock } from '../../contract/services.ts';
import type { OperationName, Telemetry } from '../../contract/telemetry.ts';
import type { OAuthError } from './oauth-error.ts';
import type { Visit } from './routes.ts';

/** What telemetry is told of a visit: how it ended, and why where it did not go well. */
export interface Told {
  readonly outcome:
    | 'begun'
    | 'approved'
    | 'declined'
    | 'began'
    | 'repeated'
    | 'renewed'
    | 'ended'
    | 'refused'
    | 'failed';
  readonly error_type?: string;
}

/** What a visit to a route is about, for telemetry. */
export type ToldAs = Extract<OperationName, 'gateway.sign_in' | 'gateway.session'>;

/** Tells telemetry how a visit ended. */
export function tellVisit(
  name: ToldAs,
  { reference, trace, began }: Visit,
  { outcome, error_type }: Told,
  { telemetry, clock }: { readonly telemetry: Pick<Telemetry, 'operation'>; readonly clock: Clock },
): void {
  telemetry.operation({
    name,
    attributes: { [`${name}.outcome`]: outcome, 'gateway.request_id': reference.request_id },
    began_at: reference.at.getTime(),
    duration_ms: clock.monotonic() - began,
    error_type,
    trace,
  });
}

/** What there is to tell of an error; `undefined` for a device that is to ask again, as it does every few seconds. */
export function toldOfError({ error, status, reason }: OAuthError): Told | undefined {
  if (error === 'authorization_pending' || (error === 'slow_down' && status === 400)) return undefined;
  return { outcome: status < 500 ? 'refused' : 'failed', error_type: reason ?? error };
}
