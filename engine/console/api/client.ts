import { OPERATIONS, type OperationTypes } from './operations.ts';

/** Name of an operation of the admin API. */
export type OperationName = keyof OperationTypes;
/** What an operation takes; what is `undefined` is not sent. */
export type InputOf<Name extends OperationName> = MayBeUndefined<OperationTypes[Name]['input']>;
type MayBeUndefined<Input> = {
  [Key in keyof Input]: Record<never, never> extends Pick<Input, Key> ? Input[Key] | undefined : Input[Key];
};
/** What an operation answers. */
export type AnswerOf<Name extends OperationName> = OperationTypes[Name]['answer'];

/** A request that was refused or came to nothing, with a message for a person. */
export class ProblemError extends Error {
  /** HTTP status; 0 where no answer arrived. */
  readonly status: number;
  readonly code: string;
  readonly request_id: string | undefined;

  constructor(problem: { message: string; status: number; code: string; request_id?: string | undefined }) {
    super(problem.message);
    this.name = 'ProblemError';
    this.status = problem.status;
    this.code = problem.code;
    this.request_id = problem.request_id;
  }
}

/** Path of the gateway's root as this browser reaches it, without a slash at its end: scripts lie in `console/assets/`. */
const ROOT_PATH = new URL(import.meta.env.DEV ? '/' : '../../', import.meta.url).pathname.replace(/\/$/, '');
/** Path of the console, without a slash at its end. */
export const CONSOLE_PATH = `${ROOT_PATH}/console`;

/**
 * Headers of each request. The first tells that it is of the console and no other site's form, and whether somebody is there:
 * only that lets the session last.
 */
function headers() {
  return { 'x-console': isUsed() ? '1' : '0', accept: 'application/json' };
}

/** How long after the last key or touch what a page asks for still counts as use. */
const USED_MS = 60_000;
let used_at = Date.now();
const noteUse = () => {
  used_at = Date.now();
};
for (const sign of ['pointerdown', 'keydown', 'wheel'] as const) {
  window.addEventListener(sign, noteUse, { capture: true, passive: true });
}

function isUsed(): boolean {
  return Date.now() - used_at < USED_MS;
}

type Given = Readonly<Record<string, unknown>>;

/** The address of an operation, with what goes into its path and query; for downloads and event streams as well. */
export function addressOf<Name extends OperationName>(name: Name, input: InputOf<Name>): string {
  const { path, query } = OPERATIONS[name];
  const given = input as Given;
  const filled = path.replace(/\{(\w+)\}/g, (_, part: string) => encodeURIComponent(String(given[part])));
  const pairs = (query as readonly string[]).flatMap((key) => {
    const value = given[key];
    return value === undefined || value === '' ? [] : [[key, String(value)]];
  });
  const search = new URLSearchParams(pairs).toString();
  return `${ROOT_PATH}${filled}${search === '' ? '' : `?${search}`}`;
}

/** Carries out an operation of the admin API. Raises ProblemError. */
export async function call<Name extends OperationName>(
  name: Name,
  input: InputOf<Name>,
  signal?: AbortSignal,
): Promise<AnswerOf<Name>> {
  const { method, has_body } = OPERATIONS[name];
  const init: RequestInit = { method, headers: headers(), credentials: 'same-origin', ...(signal && { signal }) };
  if (has_body) {
    init.body = JSON.stringify(bodyOf(name, input as Given));
    init.headers = { ...headers(), 'content-type': 'application/json' };
  } else if (method !== 'GET') {
    init.headers = { ...headers(), 'content-type': 'application/json' };
  }
  return (await request(addressOf(name, input), init)) as AnswerOf<Name>;
}

/** Asks the gateway for JSON. Raises ProblemError. */
export async function request(address: string, init: RequestInit = {}): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(address, { headers: headers(), credentials: 'same-origin', redirect: 'error', ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ProblemError({ status: 0, code: 'unreachable', message: 'The gateway cannot be reached from here.' });
  }
  const answer = (await response.json().catch(() => undefined)) as Given | undefined;
  if (response.ok && answer !== undefined) return answer;
  throw problemOf(response, answer);
}

function problemOf(response: Response, answer: Given | undefined): ProblemError {
  const error = (answer?.error ?? {}) as {
    readonly message?: unknown;
    readonly code?: unknown;
    readonly type?: unknown;
  };
  const said = typeof error.message === 'string' ? error.message : undefined;
  const code = [error.code, error.type].find((each) => typeof each === 'string') as string | undefined;
  return new ProblemError({
    status: response.status,
    code: code ?? 'no_json',
    message:
      said ?? `The answer (status ${response.status}) is none of the gateway's; a proxy on the way may have made it.`,
    request_id: response.headers.get('x-gateway-request-id') ?? undefined,
  });
}

function bodyOf(name: OperationName, given: Given): object {
  const { path, query } = OPERATIONS[name];
  const elsewhere = (key: string) => path.includes(`{${key}}`) || (query as readonly string[]).includes(key);
  return Object.fromEntries(Object.entries(given).filter(([key, value]) => !elsewhere(key) && value !== undefined));
}
