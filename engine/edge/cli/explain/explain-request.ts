import { readFileSync } from 'node:fs';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { listed } from '../../../base/kit/text/suggest.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import { readCounted } from '../../../domain/budget/reports/spending.ts';
import { listDrained } from '../../../domain/upstreams/states/shared-states.ts';
import type { DryRun } from '../../../pipeline/explain/dry-run.ts';
import { recallRequest, replayRecord } from '../../../pipeline/explain/past-request.ts';
import type { CaseRequest, Json, JsonObject } from '../../../pipeline/load/tests/test-case.ts';
import { groupsOf } from '../../simulate/diff/routes.ts';
import { describePlayed } from '../../simulate/dry-run.ts';
import { play } from '../../simulate/suite/play.ts';
import { type CommandContext, EXIT_FINDINGS, type Flags, type Texts, usageError } from '../commands.ts';
import { useDatabase } from '../with-database.ts';

const KEYS: Readonly<Record<string, { readonly expected: string; isRight(value: unknown): boolean }>> = {
  method: {
    expected: 'an HTTP method, such as POST',
    isRight: (value) => typeof value === 'string' && /^[A-Za-z]+$/.test(value),
  },
  path: {
    expected: 'a path, such as /v1/messages',
    isRight: (value) => typeof value === 'string' && /^\/[!-~]*$/.test(value),
  },
  headers: { expected: 'a mapping of header names to texts', isRight: areHeaders },
  json: { expected: 'a body', isRight: () => true },
  text: { expected: 'a string', isRight: (value) => typeof value === 'string' },
};

const CREDENTIALS = new Set(['authorization', 'x-api-key']);

const LEFT_OUT = new Set([
  'host',
  'connection',
  'keep-alive',
  'content-length',
  'transfer-encoding',
  'expect',
  'upgrade',
  ...CREDENTIALS,
]);

/** Adds `name: value` headers: repeated names are joined and replace the file's header. Raises StartError. */
export function withHeaders(request: CaseRequest, lines: readonly string[]): CaseRequest {
  if (lines.length === 0) return request;
  const added = Object.groupBy(lines.map(headerOf), ([name]) => name);
  const joined = Object.entries(added).map(([name, pairs = []]) => [name, pairs.map(([, value]) => value).join(', ')]);
  return { ...request, headers: { ...request.headers, ...Object.fromEntries(joined) } };
}

function headerOf(text: string): readonly [name: string, value: string] {
  const colon = text.indexOf(':');
  const [name, value] = [text.slice(0, colon).trim().toLowerCase(), text.slice(colon + 1).trim()];
  if (colon <= 0 || !isHeader(name, value)) {
    throw usageError(`--header ${text}: expected a name, a colon and a value, such as --header 'x-team: red'`);
  }
  if (CREDENTIALS.has(name)) {
    throw usageError(`--header ${name}: a dry run needs no credential; use --user, --group and --token-name`);
  }
  if (LEFT_OUT.has(name)) throw usageError(`--header ${name}: a connection header, which rules cannot see`);
  return [name, value];
}

function areHeaders(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(([name, text]) => typeof text === 'string' && isHeader(name, text));
}

function isHeader(name: string, text: string): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, text);
    return true;
  } catch {
    return false;
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw usageError(`cannot read ${file}: ${code === 'EACCES' ? 'permission denied' : message}`);
  }
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // Invalid JSON is a valid test: the explanation shows the gateway's response.
    return undefined;
  }
}

function isWhole(value: Json | undefined): value is JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => Object.hasOwn(KEYS, key));
}

/** A request from a file: `method`, `path`, `headers`, `json` or `text`; other content is a body. Raises StartError. */
export function readRequest(file: string): CaseRequest {
  const text = readText(file);
  const value = parse(text);
  if (!isWhole(value)) return { text };
  for (const [key, { expected, isRight }] of Object.entries(KEYS)) {
    if (Object.hasOwn(value, key) && !isRight(value[key])) throw usageError(`${file}: \`${key}\` must be ${expected}`);
  }
  if ('json' in value && 'text' in value) throw usageError(`${file}: \`json\` and \`text\` exclude each other`);
  const request = value as CaseRequest;
  const headers = Object.entries(request.headers ?? {}).map(([name, own]) => [name.toLowerCase(), own] as const);
  return { ...request, headers: Object.fromEntries(headers.filter(([name]) => !LEFT_OUT.has(name))) };
}

/** The caller of a request, by options. */
export interface Caller
  extends Texts<'user' | 'group' | 'team' | 'project' | 'address' | 'region' | 'tokenName' | 'path'>,
    Flags<'signedIn' | 'ledger'> {
  readonly memberOf?: readonly string[];
  readonly header?: readonly string[];
  readonly at?: number;
}

function groupOf(config: GatewayConfig, { group, signedIn }: Caller): string | undefined {
  const groups = groupsOf(config);
  if (group === undefined && signedIn) return undefined;
  if (group !== undefined && groups.includes(group)) return group;
  const only = groups.length === 1 ? groups[0] : undefined;
  if (group === undefined && only !== undefined) return only;
  const problem = group === undefined ? 'no token group;' : `unknown token group ${group};`;
  throw usageError(`${problem} use --group ${listed(groups)}`);
}

/** Statuses of requests that no pipeline serves. */
const UNSERVED = [404, 405];

const SOME_ANSWER = { json: {} };

export async function explainRequestFile(
  context: CommandContext,
  { loaded, config }: { readonly loaded: Loaded; readonly config: GatewayConfig },
  file: string,
  caller: Caller,
): Promise<DryRun> {
  const {
    user = 'somebody@example.com',
    memberOf: groups = [],
    signedIn = false,
    team,
    project,
    address,
    region,
    at = Date.now(),
  } = caller;
  const request = withHeaders(readRequest(file), caller.header ?? []);
  const group = groupOf(config, caller);
  const { region_header, trusted_proxies } = config.server;
  if (region !== undefined && (region_header === undefined || trusted_proxies.length === 0))
    throw usageError('--region needs server.region_header and server.trusted_proxies in gateway.yaml');
  const known = caller.ledger
    ? await useDatabase(context, config, async (database) => ({
        counted: await readCounted(database, at, config.spend_limits?.time_zone ?? 'UTC'),
        drained: [...(await listDrained(database)).keys()],
      }))
    : undefined;
  const played = await play(
    { loaded, at, behind_proxy: address !== undefined || region !== undefined, ...known },
    {
      request: { ...request, ...(caller.path === undefined ? {} : { path: caller.path }) },
      path: '/v1/messages',
      upstream: SOME_ANSWER,
      caller: {
        user,
        kind: signedIn ? 'session' : 'access_token',
        groups,
        ...(caller.tokenName && { token_name: caller.tokenName }),
        ...(group && { group }),
        ...(team && { team }),
        ...(project && { project }),
        ...(address && { address }),
        ...(region && { region }),
      },
    },
  );
  const known_facts = new Set(caller.tokenName === undefined ? [] : ['principal.token.name']);
  const run = describePlayed(loaded, config, played, known_facts);
  if (run !== undefined) return run;
  const { status = 400 } = played.response ?? {};
  const target = `${(request.method ?? 'POST').toUpperCase()} ${caller.path ?? request.path ?? '/v1/messages'}`;
  throw usageError(
    UNSERVED.includes(status)
      ? `no pipeline serves ${target}; name another path with --path`
      : `the gateway rejects this request before any pipeline, with status ${status}`,
  );
}

/** Evaluates a request of the audit log with this configuration; without its body no stage runs. Raises StartError. */
export async function explainPastRequest(
  context: CommandContext,
  usable: { readonly loaded: Loaded; readonly config: GatewayConfig },
  request_id: string,
): Promise<DryRun> {
  const { config } = usable;
  const remembered = await useDatabase(context, config, (database) => recallRequest(database, config, request_id));
  if (remembered !== undefined) return replayRecord(usable, remembered);
  throw new StartError(`no request ${request_id} in the audit log; appscli audit tail --json shows ids`, {
    exit_code: EXIT_FINDINGS,
  });
}
