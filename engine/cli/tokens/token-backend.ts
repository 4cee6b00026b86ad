import { fieldsOf } from '../../client/answers.ts';
import type { GatewayConfig } from '../../contract/config.ts';
import { StartError } from '../../contract/start-error.ts';
import { rotateToken } from '../../identity/tokens/rotate-token.ts';
import { tokenGroupsOpenTo } from '../../identity/tokens/self-made-tokens.ts';
import { type ShownState, type ShownToken, showToken } from '../../identity/tokens/shown-token.ts';
import { isWellFormedToken } from '../../identity/tokens/token-format.ts';
import {
  createToken,
  findTokens,
  type KnownToken,
  listTokens,
  nothingToDo,
  revokeToken,
  TokenError,
  theOne,
  tokenState,
  type WhichToken,
} from '../../identity/tokens/tokens.ts';
import { systemClock } from '../../kit/clock.ts';
import { didYouMean, listed } from '../../kit/text/suggest.ts';
import type { Database } from '../../store/database.ts';
import { type Answered, type AtGateway, textOf, timeOf } from '../at-gateway.ts';
import { EXIT_FINDINGS, EXIT_UNAVAILABLE, EXIT_USAGE } from '../exit-codes.ts';
import { operator } from '../operator.ts';

/** What an access token is to be; what is left out is up to where it is made. */
export interface TokenWish {
  readonly user?: string;
  readonly group?: string;
  readonly name: string;
  readonly team?: string;
  readonly project?: string;
  readonly expires?: Date;
}

/** Where commands make, list and end access tokens: the database, or a running gateway. Everything raises StartError. */
export interface TokenBackend {
  create(wish: TokenWish): Promise<ShownToken & { readonly token: string }>;
  list(only: { readonly user?: string }): Promise<ShownToken[]>;
  rotate(
    which: WhichToken | { readonly name: string },
    rotation: { readonly overlap?: number; readonly expires?: Date },
  ): Promise<ShownToken & { readonly token: string; readonly replaces: ShownToken }>;
  revoke(
    which: WhichToken | { readonly name: string },
  ): Promise<ShownToken & { readonly also_revoked: readonly string[] }>;
}

const PATH = '/admin/api/tokens';

/** Access tokens in the database of a configuration. */
export function backendAtDatabase(config: GatewayConfig, database: Database): TokenBackend {
  const by = { database, clock: systemClock, actor: operator() };
  const shown = <Known extends KnownToken>(token: Known) => showToken(token, Date.now(), config);
  const known = async (id: string) => shown((await findTokens(database, { id }))[0]!);
  return {
    async create({ user, group, name, team, project, expires }) {
      if (user === undefined || group === undefined) {
        throw usage(
          'whose token, and which models may it use? Give --user and --group, or --base-url to make your own',
        );
      }
      demandGroup(config, group);
      const made = await createToken(by, { user, group, name, team, project, expires_at: expires }).catch(
        refusedWith(EXIT_USAGE),
      );
      return { token: made.token, ...(await known(made.id)) };
    },
    list: async (only) => (await listTokens(database, only)).map(shown),
    async rotate(which, { overlap, expires }) {
      const rotated = await rotateToken(by, demandUser(which), { overlap_seconds: overlap, expires_at: expires }).catch(
        refusedWith(EXIT_FINDINGS),
      );
      return { token: rotated.token, ...(await known(rotated.id)), replaces: shown(rotated.replaced) };
    },
    revoke: async (which) => shown(await revokeToken(by, demandUser(which)).catch(refusedWith(EXIT_FINDINGS))),
  };
}

/** Access tokens at a running gateway: those of the person who signed in; an administrator's everybody's. */
export function backendAtGateway(gateway: AtGateway): TokenBackend {
  const list = async (user: string | undefined) => (await gateway.all(PATH, 'tokens', { user })).map(tokenOf);
  const idOf = async (which: WhichToken | { readonly name: string }): Promise<string> => {
    if ('id' in which) return encodeURIComponent(which.id);
    const user = 'user' in which ? which.user : textOf((await gateway.ask('GET', '/admin/api/me')).email);
    const named = { user, name: which.name };
    const found = (await list(user)).filter(({ name }) => name === which.name);
    try {
      const token = theOne(named, found, Date.now());
      if (token !== undefined) return encodeURIComponent(token.id);
    } catch (error) {
      return refusedWith(EXIT_FINDINGS)(error);
    }
    return refusedWith(EXIT_FINDINGS)(nothingToDo(named, found, Date.now()));
  };
  return {
    async create({ user, group, name, team, project, expires }) {
      const made = await gateway.ask('POST', PATH, { user, group, name, team, project, expires_at: expires });
      return { token: secretOf(made), ...tokenOf(made) };
    },
    list: ({ user }) => list(user),
    async rotate(which, { overlap, expires }) {
      const body = { overlap_seconds: overlap, expires_at: expires };
      const made = await gateway.ask('POST', `${PATH}/${await idOf(which)}/rotate`, body);
      return { token: secretOf(made), ...tokenOf(made), replaces: tokenOf(fieldsOf(made.replaces)) };
    },
    async revoke(which) {
      const revoked = await gateway.ask('DELETE', `${PATH}/${await idOf(which)}`);
      const also = Array.isArray(revoked.also_revoked) ? revoked.also_revoked.map(textOf) : [];
      return { ...tokenOf(revoked), also_revoked: also };
    },
  };
}

/** The token itself: a script that gets an empty one would go on with it. */
function secretOf({ token }: Answered): string {
  if (isWellFormedToken(textOf(token))) return textOf(token);
  throw new StartError('the answer holds no access token; is it the address of a gateway?', {
    exit_code: EXIT_UNAVAILABLE,
  });
}

const STATES: readonly ShownState[] = ['active', 'replaced', 'suspended', 'revoked', 'expired'];

function tokenOf(answer: Answered): ShownToken {
  const { id, prefix, user, group, name, team, project, created_by, self_service, replaced_by, ...rest } = answer;
  const token = {
    id: textOf(id),
    prefix: textOf(prefix),
    user: textOf(user),
    group: textOf(group),
    name: textOf(name),
    team: textOf(team) || null,
    project: textOf(project) || null,
    created_at: timeOf(rest.created_at) ?? new Date(0),
    created_by: textOf(created_by),
    self_service: self_service === true,
    expires_at: timeOf(rest.expires_at),
    last_used_at: timeOf(rest.last_used_at),
    revoked_at: timeOf(rest.revoked_at),
    replaced_by: textOf(replaced_by) || null,
  };
  // The gateway's clock decides, not this machine's.
  const state = STATES.find((each) => each === rest.state) ?? tokenState(token, Date.now());
  return { ...token, state, suspends_at: timeOf(rest.suspends_at) };
}

function demandUser(which: WhichToken | { readonly name: string }): WhichToken {
  if ('id' in which || 'user' in which) return which;
  throw usage(`whose "${which.name}"? Give --user as well, or the id of the token`);
}

function demandGroup(config: GatewayConfig, group: string): void {
  const known = tokenGroupsOpenTo({ is_admin: true, groups: [] }, config);
  if (known.includes(group)) return;
  throw usage(`there is no token group "${group}": ${didYouMean(group, known, `gateway.yaml has ${listed(known)}`)}`);
}

function usage(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_USAGE });
}

function refusedWith(exit_code: number) {
  return (error: unknown): never => {
    if (error instanceof TokenError) throw new StartError(error.message, { exit_code });
    throw error;
  };
}
