/** Runs one statement on a connection. */
export type RunQuery = <Row extends object>(text: string) => Promise<{ readonly rows: readonly Row[] }>;

/** Who is connected, and whether that role may migrate. */
export interface Standing {
  readonly user: string;
  /** Where tables are made and found; `null` where the search path names no schema that is there and open to the role. */
  readonly schema: string | null;
  readonly may_migrate: boolean;
  /** Who owns the tables; `null` before there are any. */
  readonly owner: string | null;
}

const STANDING = `
select current_user::text as "user", current_schema()::text as schema,
  coalesce(has_schema_privilege(current_schema(), 'create'), false) and coalesce(pg_has_role(c.relowner, 'usage'), true)
    as may_migrate,
  pg_get_userbyid(c.relowner)::text as owner
from (select) as one left join pg_class c on c.oid = to_regclass('schema_migrations')`;

/** Reads who is connected; changes nothing. */
export async function readStanding(run: RunQuery): Promise<Standing> {
  const { rows } = await run<Standing>(STANDING);
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

/** The rights that a gateway needs and this role lacks, as `grant` takes them: `insert on ledger`. The schema is up to date. */
export async function missingRights(run: RunQuery): Promise<readonly string[]> {
  const functions = (await run<{ missing: string }>(FUNCTIONS)).rows.map(({ missing }) => missing);
  // Then nothing tells which rights are needed.
  if (functions.some((missing) => missing.includes('needed_rights'))) return functions;
  return [...functions, ...(await run<{ missing: string }>(TABLES)).rows.map(({ missing }) => missing)];
}

/** The SQL that sets up the two roles; it may be run again. */
export const ROLES_SQL = 'examples/oidc-and-postgres/roles.sql';
const SHOWN_MAX = 3;

/** Some of the rights that are missing, in words. */
export function listRights(missing: readonly string[]): string {
  const shown = missing.slice(0, SHOWN_MAX).join(', ');
  return missing.length > SHOWN_MAX ? `${shown} and ${missing.length - SHOWN_MAX} more` : shown;
}

/** What to do about rights that are missing. */
export function grantHelp(missing: readonly string[], user: string): string {
  if (missing.length > SHOWN_MAX) return `run the SQL of ${ROLES_SQL} again as the owner of the tables`;
  return `as the owner of the tables: ${missing.map((right) => `grant ${right} to ${user}`).join('; ')}`;
}

/** What to do where a role that may not migrate meets a schema that is behind. */
export function migrateHelp({ owner }: Pick<Standing, 'owner'>): string {
  const whose = owner === null ? 'of the role that is to own the tables' : `of ${owner}, who owns the tables`;
  return `run \`appscli migrate\` with the database URL ${whose}`;
}

/** What to do where a role has no schema. */
export function schemaHelp({ user }: Pick<Standing, 'user'>): string {
  return `grant usage on the schema of the gateway to ${user}, and name it in the search_path of the role, or with ?schema= in the URL`;
}
