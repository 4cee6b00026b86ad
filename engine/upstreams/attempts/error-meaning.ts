import type { AttemptRecord } from '../../contract/forwarding.ts';
import { MEANINGS, meaningOf } from '../../protocols/error-meanings.ts';
import { isError, type ReadError, readError } from '../../protocols/read-error.ts';
import { isObject } from '../../protocols/read-json.ts';
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

/** The beginning of a JSON document that may be an error and nothing else. */
export const BEGINS_AS_ERROR =
  /^\s*\{\s*"(?:error"\s*:\s*[{"[]|(?:type|object)"\s*:\s*"(?:error|response\.failed)"|(?:detail|errors|[mM]essage|msg|code|error_code|status_code|success|base_resp)"\s*:)/;

/** What the error in a JSON text says; `undefined` where there is none. */
export function errorIn(json: string): ReadError | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  return isObject(value) && isError(value) ? readError(value) : undefined;
}

/** Whether an event can be an error: most are not, and need not be parsed to know it. */
export function mayBeError(name: string | undefined, data: string): boolean {
  if (name !== undefined && name !== 'message') return name === 'error' || name === 'response.failed';
  return BEGINS_AS_ERROR.test(data.slice(0, 64));
}

/** The error that an event of a stream reports; `undefined` for one that is part of an answer. */
export function errorOfEvent(name: string, data: string): ReadError | undefined {
  if (name === 'error') return readError(data);
  return data.includes('"error"') || BEGINS_AS_ERROR.test(data.slice(0, 64)) ? errorIn(data) : undefined;
}
