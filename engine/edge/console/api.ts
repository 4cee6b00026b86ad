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

/** What is in the query of a page's address: texts by name. */
export type PageSearch = Readonly<Record<string, string | undefined>>;

/** Name of an operation of the admin API. */
export type OperationName = keyof OperationTypes;
/** What an operation takes; what is `undefined` is not sent. */
export type InputOf<Name extends OperationName> = MayBeUndefined<OperationTypes[Name]['input']>;
/** One entry of the list that an operation answers. */
export type RowOf<Name extends OperationName> = {
  [Key in keyof AnswerOf<Name>]: AnswerOf<Name>[Key] extends readonly (infer Row extends object)[] ? Row : never;
}[keyof AnswerOf<Name>];
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
  const pairs = query.flatMap((key) => {
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
  const { method, fields } = OPERATIONS[name];
  const init: RequestInit = { method, ...(signal && { signal }) };
  if (fields !== undefined) init.body = JSON.stringify(bodyOf(name, input as Given));
  if (method !== 'GET') init.headers = { ...headers(), 'content-type': 'application/json' };
  return (await request(addressOf(name, input), init)) as AnswerOf<Name>;
}

/** Asks the gateway for JSON. Raises ProblemError. */
async function request(address: string, init: RequestInit = {}): Promise<unknown> {
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
  const { message, code, type } = (answer?.error ?? {}) as Given;
  const foreign = `The answer (status ${response.status}) is none of the gateway's; a proxy on the way may have made it.`;
  return new ProblemError({
    status: response.status,
    code: [code, type].find((each) => typeof each === 'string') ?? 'no_json',
    message: typeof message === 'string' ? message : foreign,
    request_id: response.headers.get('x-gateway-request-id') ?? undefined,
  });
}

function bodyOf(name: OperationName, given: Given): object {
  const { path, query } = OPERATIONS[name];
  const elsewhere = (key: string) => path.includes(`{${key}}`) || query.includes(key);
  return Object.fromEntries(Object.entries(given).filter(([key, value]) => !elsewhere(key) && value !== undefined));
}

interface Watching {
  /** Ask again after so long, while the page is looked at. */
  readonly every_seconds?: number;
  readonly enabled?: boolean;
}

/** What an operation answers now; asked again when the window is looked at again, and after any change made here. */
export function useOperation<Name extends OperationName>(
  name: Name,
  input: InputOf<Name>,
  { every_seconds, enabled = true }: Watching = {},
): UseQueryResult<AnswerOf<Name>, ProblemError> {
  return useQuery<AnswerOf<Name>, ProblemError>({
    queryKey: [name, input],
    queryFn: ({ signal }) => call(name, input, signal),
    // What was there stays until the answer to other filters arrives.
    placeholderData: keepPreviousData as never,
    enabled,
    ...(every_seconds !== undefined && { refetchInterval: every_seconds * 1000 }),
  });
}

/** Makes a change; what is shown anywhere is asked for again after it. */
export function useChange<Name extends OperationName>(
  name: Name,
): UseMutationResult<AnswerOf<Name>, ProblemError, InputOf<Name>> {
  const client = useQueryClient();
  return useMutation<AnswerOf<Name>, ProblemError, InputOf<Name>>({
    mutationFn: (input) => call(name, input),
    onSuccess: () => client.invalidateQueries(),
  });
}

/** Who looks at the console, and what it says about itself: what `GET /console/session` answers. */
export interface ConsoleSession {
  /** Null where nobody signed in, or the session has ended. */
  readonly person: {
    readonly email: string;
    readonly name: string | null;
    readonly is_admin: boolean;
  } | null;
  /** Why nobody is signed in any more; null where nobody was. */
  readonly signed_out_because: string | null;
  readonly support_url: string | null;
  /** When the session ends whatever is done; null without a session. */
  readonly expires_at: string | null;
  /** How to sign in: at the identity provider, or by the link of `appscli console`. */
  readonly sign_in: 'provider' | 'link';
  readonly name: string;
  readonly version: string;
  /** IANA name of the zone in which days begin. */
  readonly time_zone: string;
  /** The address clients are told, without a slash at its end. */
  readonly public_url: string;
  /** The address of the package with the commands for developers. */
  readonly client_url: string;
  /** Its SHA-256; null where it was not built. */
  readonly client_sha256: string | null;
  /** What commands for clients name as their profile; null where the names are neutral. */
  readonly client_profile: string | null;
  /** A line for everybody, such as that the data is made up. */
  readonly notice: string | null;
}

/** Asks who is signed in. Raises ProblemError. */
export async function readSession(): Promise<ConsoleSession> {
  return (await request(`${CONSOLE_PATH}/session`)) as ConsoleSession;
}

/**
 * Where a browser goes to sign in and come back to where it is. Below the public URL, to which the identity provider leads back,
 * by whatever name the browser came here: the cookie of the sign-in is of one name.
 */
export function signInAddress({ public_url }: Pick<ConsoleSession, 'public_url'>, back_to: string): string {
  return `${public_url}/console/sign-in?${new URLSearchParams({ back_to, at: 'public_url' })}`;
}

/** Ends the session; tells where the browser goes then. Raises ProblemError. */
export async function signOut(): Promise<string> {
  const { location } = (await request(`${CONSOLE_PATH}/sign-out`, {
    method: 'POST',
    headers: { 'x-console': '1', accept: 'application/json', 'content-type': 'application/json' },
    body: '{}',
  })) as { readonly location: string };
  return location;
}

type SignedIn = ConsoleSession & { readonly person: NonNullable<ConsoleSession['person']> };

/** Who looks at the pages. */
export const SessionContext = createContext<SignedIn | undefined>(undefined);

/** Who looks at this page; pages are shown to nobody else. */
export function useSession(): SignedIn {
  return use(SessionContext)!;
}

/** The query of the page's address, and how to change some of it; what is `undefined` or empty leaves the address. */
export function usePageSearch(): readonly [PageSearch, (change: PageSearch, options?: { replace?: boolean }) => void] {
  const search = useSearch({ strict: false }) as PageSearch;
  const navigate = useNavigate();
  const change = useCallback(
    (parts: PageSearch, { replace = false } = {}) => {
      navigate({
        to: '.',
        search: ((before: PageSearch) => ({ ...before, ...parts })) as never,
        replace,
        resetScroll: false,
      });
    },
    [navigate],
  );
  return [search, change];
}
