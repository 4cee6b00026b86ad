import type { Log } from '../../contract/services.ts';

/** What keeps requests from an upstream for a while, as other processes are told it. */
export interface Trouble {
  readonly kind: 'open' | 'unreachable' | 'credential' | 'limited';
  readonly upstream: string;
  /** Where it is about one model. */
  readonly upstream_model?: string;
  /** Name of the variable with the credential, where it is about that. */
  readonly credential?: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** For people, such as `status 529`. */
  readonly last?: string;
  /** For how long nothing had succeeded when it opened. */
  readonly failing_ms?: number;
}

/** What trouble is about. */
export type TroubleSubject = Omit<Trouble, 'until' | 'last' | 'failing_ms'>;

const WHAT: Readonly<Record<Trouble['kind'], string>> = {
  open: 'an upstream fails for this model',
  unreachable: 'no connection can be made to an upstream',
  credential: 'an upstream refuses the credential of the gateway',
  limited: 'an upstream has no room for the account of the gateway (429)',
};

/** Says in the log that trouble began; once, until it is over. */
export function logTrouble(log: Log, { kind, until, failing_ms: _, ...about }: Trouble, is_enforced: boolean): void {
  const fields = { ...about, until: new Date(until).toISOString() };
  const message =
    is_enforced || kind === 'limited'
      ? `${WHAT[kind]}; it is left out until it may be tried again`
      : `${WHAT[kind]}; it is used all the same (breaker.mode: shadow)`;
  if (kind === 'credential') log.error(fields, message);
  else if (kind === 'limited') log.info(fields, message);
  else log.warn(fields, message);
}

/** Says in the log that an upstream serves again. */
export function logRecovery(log: Log, { kind, ...about }: TroubleSubject, open_ms: number): void {
  const message = kind === 'credential' ? 'an upstream takes the credential again' : 'an upstream serves again';
  log.info({ ...about, seconds: Math.round(open_ms / 1000) }, message);
}
