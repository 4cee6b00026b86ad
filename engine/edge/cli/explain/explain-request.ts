import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { pathFinder } from '../../../base/kit/path-patterns.ts';
import { listed } from '../../../base/kit/text/suggest.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import { openDatabase } from '../../../base/store/database.ts';
import type { Counted } from '../../../domain/budget/limits/room.ts';
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

/** Who asks, when and where, as the command line tells it. */
export interface Caller {
  readonly user?: string;
  readonly group?: string;
  /** Groups of the identity provider. */
  readonly memberOf?: readonly string[];
  /** Whether the caller has signed in instead of having an access token. */
  readonly signedIn?: true;
  readonly team?: string;
  readonly project?: string;
  readonly address?: string;
  readonly region?: string;
  /** Headers beside those of the file, as `name: value`. */
  readonly header?: readonly string[];
  readonly tokenName?: string;
  /** Milliseconds since the epoch; now where absent. */
  readonly at?: number;
  readonly path?: string;
  /** Whether limits and drained upstreams are looked up in the database; otherwise nothing is spent and none is drained. */
  readonly ledger?: true;
}

/** The token group of the caller; `undefined` for somebody who has signed in, which leaves it to the configuration. Raises StartError. */
function groupOf(config: GatewayConfig, { group, signedIn }: Caller): string | undefined {
  const groups = groupsOf(config);
  if (group === undefined && signedIn) return undefined;
  if (group !== undefined && groups.includes(group)) return group;
  const only = groups.length === 1 ? groups[0] : undefined;
  if (group === undefined && only !== undefined) return only;
  const problem = group === undefined ? 'whose request is it?' : `there is no token group ${group};`;
  throw usageError(`${problem} name the caller's token group: --group ${listed(groups)}`);
}

/** What the database says: what limits count by now, those that were set and granted at run time, which upstreams are drained. */
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

/** A region that no proxy may name would be seen here and never by the gateway. Raises StartError. */
function checkRegion({ region }: Caller, { server }: GatewayConfig): void {
  if (region === undefined || (server.region_header !== undefined && server.trusted_proxies.length > 0)) return;
  throw usageError(
    '--region: no request has a region here; it needs server.region_header and server.trusted_proxies in gateway.yaml',
  );
}

function unserved({ pipelines }: Loaded, method: string, path: string, { response }: Played): StartError {
  const [pathname] = path.split('?');
  const served_path = pathFinder(pipelines.flatMap(({ match }) => match.paths))(pathname!);
  const is_served = pipelines.some(
    ({ match }) => match.methods.some((served) => served === method) && match.paths.includes(served_path ?? ''),
  );
  const reason = is_served
    ? `the gateway refuses this request before it looks for a pipeline, with status ${response?.status ?? 400}`
    : `no pipeline serves ${method} ${path}; name another path with --path`;
  return usageError(reason);
}

/** An answer that no pipeline takes offence at. */
const SOME_ANSWER = { json: {} };

/** Takes a request through its pipeline without sending anything. Raises StartError. */
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
  const told = new Set(caller.tokenName === undefined ? [] : ['principal.token.name']);
  const run = describePlayed(loaded, config, played, told);
  if (run !== undefined) return run;
  throw unserved(
    loaded,
    (request.method ?? 'POST').toUpperCase(),
    caller.path ?? request.path ?? '/v1/messages',
    played,
  );
}

/**
 * What the configuration of today would make of a request that the audit log remembers. Nothing runs, as the log keeps no
 * body. Raises StartError.
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
  throw new StartError(`the audit log has no request ${request_id}; appscli audit tail --json shows ids`, {
    exit_code: EXIT_FINDINGS,
  });
}
