/** Runs one statement on a connection. */
export type RunQuery = <Row extends object>(text: string) => Promise<{ readonly rows: readonly Row[] }>;

/** The connected role, and whether it may migrate. */
export interface DatabaseRole {
  readonly user: string;
  /** Current schema; `null` if the search path has no accessible schema. */
  readonly schema: string | null;
  readonly may_migrate: boolean;
  /** Owner of the tables; `null` if there are none. */
  readonly owner: string | null;
}

const STANDING = `
select current_user::text as "user", current_schema()::text as schema,
  coalesce(has_schema_privilege(current_schema(), 'create'), false) and coalesce(pg_has_role(c.relowner, 'usage'), true)
    as may_migrate,
  pg_get_userbyid(c.relowner)::text as owner
from (select) as one left join pg_class c on c.oid = to_regclass('schema_migrations')`;

/** Reads the connected role. Read-only. */
export async function readDatabaseRole(run: RunQuery): Promise<DatabaseRole> {
  const { rows } = await run<DatabaseRole>(STANDING);
  return rows[0]!;
}

const FUNCTIONS = `
select 'execute on function ' || p.oid::regprocedure as missing
from pg_proc p
where p.pronamespace = current_schema()::regnamespace and not has_function_privilege(p.oid, 'execute')
order by 1`;

const TABLES = `
select r.name || ' on ' || case r.name when 'usage' then 'sequence ' else '' end || n.relation as missing
from needed_rights() as n cross join unnest(n.rights) as r (name)
where not case r.name when 'usage' then has_sequence_privilege(n.relation, 'usage') else has_table_privilege(n.relation, r.name) end
order by n.relation::text, r.name`;

/** The privileges that a gateway needs and this role lacks, in the form of `grant`: `insert on ledger`. Requires a current schema. */
export async function missingRights(run: RunQuery): Promise<readonly string[]> {
  const functions = (await run<{ missing: string }>(FUNCTIONS)).rows.map(({ missing }) => missing);
  // Without that function the needed privileges are unknown.
  if (functions.some((missing) => missing.includes('needed_rights'))) return functions;
  return [...functions, ...(await run<{ missing: string }>(TABLES)).rows.map(({ missing }) => missing)];
}

/** SQL that sets up the two roles; repeatable. */
export const ROLES_SQL = 'examples/oidc-and-postgres/roles.sql';
const SHOWN_MAX = 3;

/** The first missing privileges, in words. */
export function listRights(missing: readonly string[]): string {
  const shown = missing.slice(0, SHOWN_MAX).join(', ');
  return missing.length > SHOWN_MAX ? `${shown} and ${missing.length - SHOWN_MAX} more` : shown;
}

/** Remedy for missing privileges. */
export function grantHelp(missing: readonly string[], user: string): string {
  if (missing.length > SHOWN_MAX) return `run ${ROLES_SQL} again as the owner of the tables`;
  return `as the owner of the tables: ${missing.map((right) => `grant ${right} to ${user}`).join('; ')}`;
}

/** Remedy for an outdated schema, if the role may not migrate. */
export function migrateHelp({ owner }: Pick<DatabaseRole, 'owner'>): string {
  const whose = owner === null ? 'of the role that will own the tables' : `of ${owner}, who owns the tables`;
  return `run \`appscli migrate\` with the database URL ${whose}`;
}

/** Remedy for a role without a schema. */
export function schemaHelp({ user }: Pick<DatabaseRole, 'user'>): string {
  return `grant ${user} usage on the schema of the gateway, and set it as the search_path of the role or with ?schema= in the URL`;
}
