import {
  keepPreviousData,
  type UseMutationResult,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { createContext, use, useCallback } from 'react';
import { OPERATIONS, type OperationTypes } from './operations.ts';

/** Query parameters of a page's URL. */
export type PageSearch = Readonly<Record<string, string | undefined>>;

/** Name of an operation of the admin API. */
export type OperationName = keyof OperationTypes;
/** Input of an operation; `undefined` is not sent. */
export type InputOf<Name extends OperationName> = MayBeUndefined<OperationTypes[Name]['input']>;
/** Entry of the list in a response. */
export type RowOf<Name extends OperationName> = {
  [Key in keyof ResponseOf<Name>]: ResponseOf<Name>[Key] extends readonly (infer Row extends object)[] ? Row : never;
}[keyof ResponseOf<Name>];
type MayBeUndefined<Input> = {
  [Key in keyof Input]: Record<never, never> extends Pick<Input, Key> ? Input[Key] | undefined : Input[Key];
};
/** Response of an operation. */
export type ResponseOf<Name extends OperationName> = OperationTypes[Name]['response'];

/** A failed request, with a message for people. */
export class ProblemError extends Error {
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

/** Root path of the gateway in this browser, without a trailing slash; scripts are in `console/assets/`. */
const ROOT_PATH = new URL(import.meta.env.DEV ? '/' : '../../', import.meta.url).pathname.replace(/\/$/, '');
/** Path of the console, without a trailing slash. */
export const CONSOLE_PATH = `${ROOT_PATH}/console`;

/**
 * Headers of each request. `x-console` protects against CSRF, as forms of other sites cannot send it; `1` reports user activity,
 * which extends the session.
 */
function headers() {
  return { 'x-console': isActive() ? '1' : '0', accept: 'application/json' };
}

const ACTIVE_MS = 60_000;
let active_at = Date.now();
const recordActivity = () => {
  active_at = Date.now();
};
for (const event of ['pointerdown', 'keydown', 'wheel'] as const) {
  window.addEventListener(event, recordActivity, { capture: true, passive: true });
}

function isActive(): boolean {
  return Date.now() - active_at < ACTIVE_MS;
}

type Values = Readonly<Record<string, unknown>>;

/** URL of an operation with its path and query parameters; also for downloads and event streams. */
export function addressOf<Name extends OperationName>(name: Name, input: InputOf<Name>): string {
  const { path, query } = OPERATIONS[name];
  const values = input as Values;
  const filled = path.replace(/\{(\w+)\}/g, (_, part: string) => encodeURIComponent(String(values[part])));
  const pairs = query.flatMap((key) => {
    const value = values[key];
    return value === undefined || value === '' ? [] : [[key, String(value)]];
  });
  const search = new URLSearchParams(pairs).toString();
  return `${ROOT_PATH}${filled}${search === '' ? '' : `?${search}`}`;
}

/** Calls an operation of the admin API. Raises ProblemError. */
export async function call<Name extends OperationName>(
  name: Name,
  input: InputOf<Name>,
  signal?: AbortSignal,
): Promise<ResponseOf<Name>> {
  const { method, fields } = OPERATIONS[name];
  const init: RequestInit = { method, ...(signal && { signal }) };
  if (fields !== undefined) init.body = JSON.stringify(bodyOf(name, input as Values));
  if (method !== 'GET') init.headers = { ...headers(), 'content-type': 'application/json' };
  return (await request(addressOf(name, input), init)) as ResponseOf<Name>;
}

async function request(address: string, init: RequestInit = {}): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(address, { headers: headers(), credentials: 'same-origin', redirect: 'error', ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ProblemError({ status: 0, code: 'unreachable', message: 'The gateway is unreachable.' });
  }
  const body = (await response.json().catch(() => undefined)) as Values | undefined;
  if (response.ok && body !== undefined) return body;
  throw problemOf(response, body);
}

function problemOf(response: Response, body: Values | undefined): ProblemError {
  const { message, code, type } = (body?.error ?? {}) as Values;
  const non_api = `The response (status ${response.status}) is not from the gateway; a proxy may have sent it.`;
  return new ProblemError({
    status: response.status,
    code: [code, type].find((each) => typeof each === 'string') ?? 'no_json',
    message: typeof message === 'string' ? message : non_api,
    request_id: response.headers.get('x-gateway-request-id') ?? undefined,
  });
}

function bodyOf(name: OperationName, values: Values): object {
  const { path, query } = OPERATIONS[name];
  const elsewhere = (key: string) => path.includes(`{${key}}`) || query.includes(key);
  return Object.fromEntries(Object.entries(values).filter(([key, value]) => !elsewhere(key) && value !== undefined));
}

/** Query of an operation; refetched when the window regains focus, after every change and, while visible, at an interval. */
export function useOperation<Name extends OperationName>(
  name: Name,
  input: InputOf<Name>,
  { every_seconds }: { readonly every_seconds?: number | undefined } = {},
): UseQueryResult<ResponseOf<Name>, ProblemError> {
  return useQuery<ResponseOf<Name>, ProblemError>({
    queryKey: [name, input],
    queryFn: ({ signal }) => call(name, input, signal),
    // Keep the previous rows until the response to other filters arrives.
    placeholderData: keepPreviousData as never,
    ...(every_seconds !== undefined && { refetchInterval: every_seconds * 1000 }),
  });
}

/** Mutation of an operation; refetches all queries afterwards. */
export function useChange<Name extends OperationName>(
  name: Name,
): UseMutationResult<ResponseOf<Name>, ProblemError, InputOf<Name>> {
  const client = useQueryClient();
  return useMutation<ResponseOf<Name>, ProblemError, InputOf<Name>>({
    mutationFn: (input) => call(name, input),
    onSuccess: () => client.invalidateQueries(),
  });
}

/** Response of `GET /console/session`: the signed-in person and the gateway. */
export interface ConsoleSession {
  readonly person: {
    readonly email: string;
    readonly name: string | null;
    readonly is_admin: boolean;
  } | null;
  /** Why the session ended; null if there was none. */
  readonly signed_out_because: string | null;
  /** Way to sign in: identity provider, or link of `appscli console`. */
  readonly sign_in: 'provider' | 'link';
  readonly name: string;
  readonly version: string;
  readonly time_zone: string;
  readonly public_url: string;
  readonly client_url: string;
  /** SHA-256 of the package; null if it was not built. */
  readonly client_sha256: string | null;
  /** Profile name in commands for clients; null for neutral names. */
  readonly client_profile: string | null;
  /** A notice on every page, for example that the data is made up. */
  readonly notice: string | null;
}

/** Fetches the session. Raises ProblemError. */
export async function readSession(): Promise<ConsoleSession> {
  return (await request(`${CONSOLE_PATH}/session`)) as ConsoleSession;
}

/**
 * URL of the sign-in that returns to the current page. Uses the public URL, whatever host name the browser used: the identity
 * provider redirects there, and the sign-in cookie belongs to that host.
 */
export function signInAddress({ public_url }: Pick<ConsoleSession, 'public_url'>, back_to: string): string {
  return `${public_url}/console/sign-in?${new URLSearchParams({ back_to })}`;
}

/** Ends the session and returns the URL of the next page. Raises ProblemError. */
export async function signOut(): Promise<string> {
  const { location } = (await request(`${CONSOLE_PATH}/sign-out`, {
    method: 'POST',
    headers: { 'x-console': '1', accept: 'application/json', 'content-type': 'application/json' },
    body: '{}',
  })) as { readonly location: string };
  return location;
}

type SignedIn = ConsoleSession & { readonly person: NonNullable<ConsoleSession['person']> };

/** Session of the signed-in person. */
export const SessionContext = createContext<SignedIn | undefined>(undefined);

/** The session; pages are rendered only with one. */
export function useSession(): SignedIn {
  return use(SessionContext)!;
}

type ChangeSearch = (change: PageSearch, options?: { readonly replace: boolean }) => void;

/** Query parameters of the page's URL, and a function to change some; `undefined` and empty values are removed. */
export function usePageSearch(): readonly [PageSearch, ChangeSearch] {
  const search = useSearch({ strict: false }) as PageSearch;
  const navigate = useNavigate();
  const change = useCallback<ChangeSearch>(
    (parts, options) => {
      const merge = (before: PageSearch) => ({ ...before, ...parts });
      navigate({ to: '.', search: merge as never, resetScroll: false, ...options });
    },
    [navigate],
  );
  return [search, change];
}
