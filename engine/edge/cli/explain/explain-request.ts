import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { pathFinder } from '../../../base/kit/path-patterns.ts';
import { listed } from '../../../base/kit/text/suggest.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import { openDatabase } from '../../../base/store/database.ts';
import type { Counted } from '../../../domain/budget/limits/headroom.ts';
import { readCounted } from '../../../domain/budget/reports/spending.ts';
import { listDrained } from '../../../domain/upstreams/states/shared-states.ts';
import type { DryRun } from '../../../pipeline/explain/dry-run.ts';
import { recallRequest, replayRecord } from '../../../pipeline/explain/past-request.ts';
import { groupsOf } from '../../simulate/diff/models.ts';
import { describePlayed } from '../../simulate/dry-run.ts';
import { play } from '../../simulate/suite/play.ts';
import type { Played } from '../../simulate/suite/played.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, usageError } from '../exit-codes.ts';
import { commandLog } from '../with-database.ts';
import { readRequest, withHeaders } from './request-file.ts';

/** The caller of a request, by options. */
export interface Caller {
  readonly user?: string;
  readonly group?: string;
  /** Groups of the identity provider. */
  readonly memberOf?: readonly string[];
  /** Whether the caller uses a sign-in session instead of an access token. */
  readonly signedIn?: true;
  readonly team?: string;
  readonly project?: string;
  readonly address?: string;
  readonly region?: string;
  /** Extra headers, as `name: value`. */
  readonly header?: readonly string[];
  readonly tokenName?: string;
  /** Milliseconds since the epoch; now by default. */
  readonly at?: number;
  readonly path?: string;
  /** Whether to read spending and drained upstreams from the database; both are empty otherwise. */
  readonly ledger?: true;
}

/** The caller's token group; `undefined` for a session, whose group the configuration decides. Raises StartError. */
function groupOf(config: GatewayConfig, { group, signedIn }: Caller): string | undefined {
  const groups = groupsOf(config);
  if (group === undefined && signedIn) return undefined;
  if (group !== undefined && groups.includes(group)) return group;
  const only = groups.length === 1 ? groups[0] : undefined;
  if (group === undefined && only !== undefined) return only;
  const problem = group === undefined ? 'no token group;' : `unknown token group ${group};`;
  throw usageError(`${problem} use --group ${listed(groups)}`);
}

/** Reads counters, run-time limits and drained upstreams from the database. */
async function knownSoFar(
  context: CommandContext,
  config: GatewayConfig,
  at: number,
): Promise<{ readonly counted: Counted; readonly drained: readonly string[] }> {
  const database = await openDatabase({ config, env: context.env, log: commandLog(context), wait: 'until-ready' });
  try {
    const counted = await readCounted(database, at, config.spend_limits?.time_zone ?? 'UTC');
    const drained = [...(await listDrained(database)).keys()];
    return { counted, drained };
  } finally {
    await database.close();
  }
}

/** Rejects a region that the gateway could never see. Raises StartError. */
function checkRegion({ region }: Caller, { server }: GatewayConfig): void {
  if (region === undefined || (server.region_header !== undefined && server.trusted_proxies.length > 0)) return;
  throw usageError('--region needs server.region_header and server.trusted_proxies in gateway.yaml');
}

function unserved({ pipelines }: Loaded, method: string, path: string, { response }: Played): StartError {
  const [pathname] = path.split('?');
  const served_path = pathFinder(pipelines.flatMap(({ match }) => match.paths))(pathname!);
  const is_served = pipelines.some(
    ({ match }) => match.methods.some((served) => served === method) && match.paths.includes(served_path ?? ''),
  );
  const reason = is_served
    ? `the gateway rejects this request before any pipeline, with status ${response?.status ?? 400}`
    : `no pipeline serves ${method} ${path}; name another path with --path`;
  return usageError(reason);
}

/** A response that every pipeline accepts. */
const SOME_ANSWER = { json: {} };

/** Runs a request through its pipeline without a network. Raises StartError. */
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
  checkRegion(caller, config);
  const known = caller.ledger ? await knownSoFar(context, config, at) : undefined;
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
  throw unserved(
    loaded,
    (request.method ?? 'POST').toUpperCase(),
    caller.path ?? request.path ?? '/v1/messages',
    played,
  );
}

/**
 * Evaluates a request of the audit log with the current configuration. No stage runs, because the log has no body. Raises
 * StartError.
 */
export async function explainPastRequest(
  context: CommandContext,
  usable: { readonly loaded: Loaded; readonly config: GatewayConfig },
  request_id: string,
): Promise<DryRun> {
  const { config } = usable;
  const database = await openDatabase({ config, env: context.env, log: commandLog(context), wait: 'until-ready' });
  try {
    const remembered = await recallRequest(database, config, request_id);
    if (remembered !== undefined) return replayRecord(usable, remembered);
  } finally {
    await database.close();
  }
  throw new StartError(`no request ${request_id} in the audit log; appscli audit tail --json shows ids`, {
    exit_code: EXIT_FINDINGS,
  });
}
