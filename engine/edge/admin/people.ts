import { OperationError } from '../../base/contract/operation-error.ts';
import { isUnavailable } from '../../base/store/store-errors.ts';
import {
  deprovision,
  endSession,
  endSessionsOf,
  OWN_TOKENS,
  type OwnerStatus,
  type OwnTokens,
  rolesOf,
  withOwnTokens,
} from '../../domain/identity/deprovisioning/deprovision.ts';
import { countRefusals, listRefusals, type RefusalFilter } from '../../domain/identity/provider/refused-sign-ins.ts';
import {
  type KnownPerson,
  listPeople,
  type PeopleFilter,
  type RebindRequest,
  rebindAs,
} from '../../domain/identity/sessions/people.ts';
import { serviceTokensOf } from '../../domain/identity/tokens/service-tokens.ts';
import { tokenGroupsOpenTo } from '../../domain/identity/tokens/tokens.ts';
import { noModelsBecause } from '../../domain/upstreams/models.ts';
import { type AdminOptions, type Caller, type OperationContext, ownerToList } from './calls.ts';
import { emailInPath, type PeriodQuery, periodOf, requireId } from './description.ts';
import { listById, notInList, type PageBefore, type PageQuery, pageOf } from './lists.ts';

/** The database has all groups; a session token only those that decide something. */
type Known = { readonly groups?: readonly string[] } & { [Key in keyof OwnTokens]: OwnTokens[Key] | null };

/** Filter of the list of rejected sign-ins. */
export type RefusalsQuery = PeriodQuery & { readonly user?: string };

/** Identity of the caller; people and rejected sign-ins, for administrators; sessions: one's own, for administrators all. */
export function peopleOperations({ config, models, database, clock, sessions }: AdminOptions) {
  const at = { config, database, clock };
  const isAdmin = ({ groups }: KnownPerson) => rolesOf(config.auth ?? {}, groups).includes('admin');
  /** The caller's own tokens; `null` during an outage of the database, without which the rest is known. */
  const knownOf = async (principal_id: string): Promise<Known> => {
    const now = clock.now();
    try {
      const [row] = await database.query<OwnerStatus & { own_tokens: number; groups: readonly string[] }>(
        'own_tokens',
        `select p.groups, ${OWN_TOKENS('$2')} from principals p where p.id = $1`,
        [principal_id, new Date(now)],
      );
      if (row === undefined) return { own_tokens: 0, own_tokens_suspended: false, own_tokens_suspend_at: null };
      return withOwnTokens(row, now, config);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return { own_tokens: null, own_tokens_suspended: null, own_tokens_suspend_at: null };
    }
  };
  const filterOf = (query: RefusalsQuery): RefusalFilter => ({ user: query.user, ...periodOf(query, config) });
  const refusals = listById({
    name: 'refused-sign-ins',
    titles: [
      ...['id', 'at', 'email', 'refused', 'detail', 'groups', 'expected'],
      ...['client', 'client_address', 'request_id', 'subject', 'issuer'],
    ],
    read: (query: RefusalsQuery, page) => listRefusals(database, filterOf(query), page),
    count: (query) => countRefusals(database, filterOf(query)),
  });
  return {
    async getMe({ caller }: OperationContext, _nothing: object) {
      const { email, name = null, groups, team = null, project = null, roles, token } = caller.principal;
      const asking = { kind: 'session', token_group: token.group, groups, email } as const;
      const rejections = models.all.map((model) => models.refusal(asking, model));
      const usable = models.all.filter((_, i) => rejections[i] === undefined);
      return {
        email,
        name,
        groups,
        team,
        project,
        roles,
        session_id: token.id,
        token_group: token.group ?? null,
        models: usable.map(({ id }) => id),
        no_models_because: usable.length === 0 ? noModelsBecause(rejections, groups, config) : null,
        may_make_tokens_in: tokenGroupsOpenTo({ is_admin: caller.is_admin, groups }, config),
        ...(await knownOf(caller.principal.id)),
      };
    },

    async listPeople(_: OperationContext, { limit, ...only }: PeopleFilter) {
      const more = limit === undefined ? undefined : limit + 1;
      const found = await listPeople(at, { ...only, limit: more });
      const people = found.slice(0, limit).map((person) => ({ ...person, is_admin: isAdmin(person) }));
      return { people, next: people.length < found.length ? people.at(-1)!.email : null };
    },

    async rebind({ by }: OperationContext, { email, ...input }: RebindRequest & { readonly email: string }) {
      const oidc = config.auth?.oidc;
      if (input.subject !== undefined && oidc === undefined) {
        throw new OperationError(
          'the field "subject" needs an identity provider: auth.oidc in gateway.yaml is not set',
        );
      }
      const user = emailInPath(email);
      const [person] = user === undefined ? [] : await listPeople(at, { user });
      if (person === undefined) throw unknown(user);
      return rebindAs(by, person, input, oidc);
    },

    async deprovision(
      { by }: OperationContext,
      input: { readonly email: string; readonly tokens: 'all' | 'self_service' | 'none'; readonly because?: string },
    ) {
      const user = emailInPath(input.email);
      if (user === undefined) throw unknown(user);
      const because = input.because ?? 'deprovisioned by an administrator';
      const { known, ...ended } = await deprovision(by, { user, actor: by.actor, because, tokens: input.tokens });
      if (!known) throw unknown(user);
      const service_tokens = await serviceTokensOf(at, user);
      return { user, sessions: ended.sessions, tokens: ended.tokens, service_tokens };
    },

    async listSessions(
      { caller }: OperationContext,
      { user, ended, limit, after }: PageQuery & { readonly user?: string; readonly ended: 'true' | 'false' },
    ) {
      const owner = ownerToList(caller, user);
      const all =
        (await sessions?.list({ ...(owner !== undefined && { user: owner }), ended: ended === 'true' })) ?? [];
      const start = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
      if (after !== undefined && start === 0) throw notInList();
      const page = pageOf(all.slice(start), limit);
      const current = caller.principal.token.id;
      return {
        sessions: page.entries.map((session) => ({ ...session, current: session.id === current })),
        next: page.next,
      };
    },

    async endSessions(
      { caller, by }: OperationContext,
      { user, keep }: { readonly user?: string; readonly keep?: 'current' },
    ) {
      const owner = ownerToList(caller, user) ?? caller.email;
      const but = keep === 'current' ? caller.principal.token.id : undefined;
      const sessions = await endSessionsOf(by, { user: owner, but, because: `ended ${whoEnds(caller)}` });
      return { user: owner, sessions };
    },

    async endSession({ caller, by }: OperationContext, input: { readonly id: string }) {
      const id = requireId(input.id, 'session');
      const user = caller.is_admin ? undefined : caller.email;
      if (await endSession(by, { id, because: `ended ${whoEnds(caller)}`, user })) return { id, ended: true };
      const where = caller.is_admin ? '; "appscli sessions list" shows all' : ' among yours';
      throw new OperationError(`there is no active session ${id}${where}`, 'missing');
    },

    async listRefusedSignIns(_: OperationContext, query: RefusalsQuery & PageBefore) {
      const { entries, next } = await refusals.page(query);
      return { refused_sign_ins: entries, next };
    },

    exportRefusedSignIns: (_: OperationContext, query: RefusalsQuery) => refusals.lines(query),
    exportRefusedSignInsCsv: (_: OperationContext, query: RefusalsQuery) => refusals.csv(query),
  };
}

function unknown(user: string | undefined): OperationError {
  const address = user === undefined ? 'this address' : `the address ${user}`;
  return new OperationError(
    `unknown person: ${address} has never signed in or had an access token; check the address`,
    'missing',
  );
}

function whoEnds({ actor, is_admin }: Caller): string {
  if (actor.kind === 'command') return 'at the command line';
  return is_admin ? 'by an administrator' : 'by its owner';
}
