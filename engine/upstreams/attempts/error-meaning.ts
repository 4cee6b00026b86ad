import type { AttemptRecord } from '../../contract/forwarding.ts';
import { type AttemptOutcome, FAILOVER_TABLE } from '../failover-table.ts';

/** What an error says of itself, in the words of any of the protocols. */
export interface ErrorSaid {
  /** `error.type`, `error.code`, and where it stands in another place. */
  readonly words: readonly string[];
  readonly message: string;
  /** A status that stands in the error. */
  readonly status: number | undefined;
}

/** Codes with which an answer of Responses fails because of what the request holds (`ResponseError` of its API). */
const REQUEST_CODES = [
  'invalid_prompt',
  'data_residency_mismatch',
  'bio_policy',
  'cyber_policy',
  'misalignment_policy_violation',
  'invalid_image',
  'invalid_image_format',
  'invalid_base64_image',
  'invalid_image_url',
  'invalid_image_mode',
  'image_too_large',
  'image_too_small',
  'image_parse_error',
  'image_content_policy_violation',
  'image_file_too_large',
  'image_file_not_found',
  'empty_image_file',
  'unsupported_image_media_type',
  'failed_to_download_image',
];

/** Statuses that the words of errors stand for, of all three protocols. */
const STATUS_OF_WORD: Readonly<Record<string, number>> = {
  ...Object.fromEntries(REQUEST_CODES.map((code) => [code, 400])),
  invalid_request_error: 400,
  context_length_exceeded: 400,
  authentication_error: 401,
  invalid_api_key: 401,
  billing_error: 402,
  insufficient_quota: 402,
  billing_hard_limit_reached: 402,
  billing_not_active: 402,
  permission_error: 403,
  not_found_error: 404,
  model_not_found: 404,
  conflict_error: 409,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  api_error: 500,
  server_error: 500,
  internal_server_error: 500,
  server_is_overloaded: 503,
  slow_down: 503,
  service_unavailable: 503,
  timeout_error: 504,
  overloaded_error: 529,
};

/** Words that mean more than the status they come with. */
const OUTCOME_OF_WORD: Readonly<Record<string, AttemptOutcome>> = {
  billing_error: 'payment',
  insufficient_quota: 'payment',
  billing_hard_limit_reached: 'payment',
  billing_not_active: 'payment',
  model_not_found: 'model_missing',
  server_is_overloaded: 'overloaded',
  overloaded_error: 'overloaded',
};

/** Accounts without credit are told so with status 400 by the Messages API. */
const NO_CREDIT = /\bcredit balance is too low\b/i;

/** The outcome that a status stands for, and what else an error response says. */
export function outcomeOf(status: number, said: ErrorSaid | undefined): AttemptOutcome {
  if (status < 400) return 'answered';
  for (const word of said?.words ?? []) if (Object.hasOwn(OUTCOME_OF_WORD, word)) return OUTCOME_OF_WORD[word]!;
  if (said !== undefined && status < 500 && NO_CREDIT.test(said.message)) return 'payment';
  switch (status) {
    case 401:
      return 'credential';
    case 402:
      return 'payment';
    case 403:
      return 'permission';
    case 404:
    case 501:
      return 'model_missing';
    case 429:
      return 'limited';
    case 502:
    case 504:
      return 'bad_gateway';
    case 503:
    case 529:
      return 'overloaded';
    default:
      return status < 500 ? 'caller' : 'failed';
  }
}

/** The status that an error in a stream stands for; 500 where its words are not known. */
export function statusOf({ words, status }: ErrorSaid): number {
  if (status !== undefined) return status;
  // The code says more than the type.
  for (const word of words) if (Object.hasOwn(STATUS_OF_WORD, word)) return STATUS_OF_WORD[word]!;
  return 500;
}

/** Whether the upstream may bill an attempt that did not serve its request. */
export function mayBeBilled({ outcome, certainty }: Pick<AttemptRecord, 'outcome' | 'certainty'>): boolean {
  if (certainty === 'not_sent' || !Object.hasOwn(FAILOVER_TABLE, outcome)) return false;
  return FAILOVER_TABLE[outcome as AttemptOutcome].billed === 'possibly';
}

/** A JSON document that is an error and nothing else. */
export const BEGINS_AS_ERROR = /^\s*\{\s*"(?:error"\s*:\s*\{|type"\s*:\s*"(?:error|response\.failed)")/;

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const textOf = (value: unknown) => (typeof value === 'string' ? value : '');

/** What the error in a JSON text says; `undefined` where there is none. */
export function errorSaid(json: string): ErrorSaid | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (!isFields(value)) return undefined;
  const { response } = value;
  const found = [value.error, isFields(response) ? response.error : undefined].find(isFields);
  // The error event of Responses has its fields beside its type.
  const error = found ?? (value.type === 'error' ? value : undefined);
  if (error === undefined) return undefined;
  const { code, type, message, status = code } = error;
  const number = typeof status === 'number' && status >= 400 && status <= 599 ? status : undefined;
  const words = [code, type === 'error' ? undefined : type].map(textOf).filter((word) => word !== '');
  return { words, message: textOf(message), status: number };
}

/** Whether an event can be an error: most are not, and need not be parsed to know it. */
export function mayBeError(name: string | undefined, data: string): boolean {
  if (name !== undefined && name !== 'message') return name === 'error' || name === 'response.failed';
  return BEGINS_AS_ERROR.test(data.slice(0, 64));
}

/** The error that an event of a stream reports; `undefined` for one that is part of an answer. */
export function errorOfEvent(name: string, data: string): ErrorSaid | undefined {
  if (!data.includes('"error"') && name !== 'error') return undefined;
  const said = errorSaid(data);
  if (said !== undefined) return said;
  return name === 'error' ? { words: [], message: '', status: undefined } : undefined;
}
