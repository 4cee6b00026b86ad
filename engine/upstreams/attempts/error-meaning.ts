import type { AttemptRecord } from '../../contract/forwarding.ts';
import { MEANINGS, meaningOf } from '../../protocols/error-meanings.ts';
import type { ReadError } from '../../protocols/read-error.ts';
import { type AttemptOutcome, FAILOVER_TABLE } from '../failover-table.ts';

const OUTCOME_OF_STATUS: Readonly<Record<number, AttemptOutcome>> = {
  401: 'credential',
  402: 'payment',
  403: 'permission',
  404: 'model_missing',
  429: 'limited',
  501: 'model_missing',
  502: 'bad_gateway',
  503: 'overloaded',
  504: 'bad_gateway',
  529: 'overloaded',
};

/** The outcome that a status stands for, and what else an error response says. */
export function outcomeOf(status: number, error: ReadError | undefined): AttemptOutcome {
  if (status < 400) return 'answered';
  const found = error && meaningOf(error, status);
  const outcome = found && (MEANINGS[found.meaning] as { readonly outcome?: AttemptOutcome }).outcome;
  return outcome ?? OUTCOME_OF_STATUS[status] ?? (status < 500 ? 'caller' : 'failed');
}

/** Whether the upstream may bill an attempt that did not serve its request. */
export function mayBeBilled({ outcome, certainty }: Pick<AttemptRecord, 'outcome' | 'certainty'>): boolean {
  if (certainty === 'not_sent' || !Object.hasOwn(FAILOVER_TABLE, outcome)) return false;
  return FAILOVER_TABLE[outcome as AttemptOutcome].billed === 'possibly';
}
