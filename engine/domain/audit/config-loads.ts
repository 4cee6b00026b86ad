/** What gateways loaded, in the database: each load, its files and rules, and what each replica runs. @module */
import type { Database } from '../../base/store/database.ts';

/** Why a configuration was loaded: start, changed files, or a signal. */
export type LoadCause = 'start' | 'files' | 'signal';

/** A file of a configuration, as stored. */
export interface KeptFile {
  /** Path below the directory of gateway.yaml, below `appscli/` for shipped files, else absolute. */
  readonly name: string;
  /** Without secrets; `null` for code and for a file that is too long. */
  readonly text: string | null;
  /** Hash of code, 12 hexadecimal digits; `null` where `text` has the content. */
  readonly digest: string | null;
}

/** A rule of a configuration in words, with the lines where it is written. */
export interface KeptRule {
  readonly kind: string;
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  /** The condition as a sentence. */
  readonly text: string;
  readonly effect: string;
  readonly file: string;
  readonly line: number;
  /** Its YAML; for a condition of a stage the whole entry of the stage. */
  readonly first_line: number;
  readonly last_line: number;
}

/** A finding of `check`. */
export interface KeptFinding {
  readonly code: string;
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly file: string;
  readonly line: number | null;
  readonly found: string | null;
  readonly expected: string | null;
  readonly help: string | null;
}

/** A load as it is written to the database. */
export interface RecordedLoad {
  readonly replica: string;
  readonly cause: LoadCause;
  readonly failed: boolean;
  readonly version: string | null;
  readonly config_hash: string | null;
  readonly changed: readonly string[];
  readonly needs_restart: readonly string[];
  readonly findings: readonly KeptFinding[];
  readonly problem: string | null;
  readonly program: string;
  readonly files: readonly KeptFile[];
  readonly rules: readonly KeptRule[] | null;
}

/** A load as it is read from the database. */
export interface ConfigLoad extends Omit<RecordedLoad, 'files' | 'rules' | 'findings'> {
  readonly id: number;
  readonly at: Date;
  readonly errors: number;
  readonly warnings: number;
}

/** A load with its findings. */
export interface FoundLoad extends ConfigLoad {
  readonly findings: readonly KeptFinding[];
}

/** The configuration that a replica runs. */
export interface ReplicaConfig {
  readonly name: string;
  readonly version: string;
  readonly cause: LoadCause;
  readonly loaded_at: Date;
  /** Since when its files do not load; `null` while they do. */
  readonly failing_since: Date | null;
  readonly program: string;
  readonly seen_at: Date;
}

/** A stored version of the configuration. */
export interface ConfigVersion {
  readonly version: string;
  readonly first_loaded_at: Date;
  readonly files: readonly KeptFile[];
  readonly rules: readonly KeptRule[] | null;
}

/** Matches of a rule in shadow mode, and the last matching request. */
export interface ShadowCount {
  readonly name: string;
  readonly requests: number;
  /** Requests by upstream; an empty name for requests without one. */
  readonly by_upstream: Readonly<Record<string, number>>;
  readonly last_at: Date;
  readonly last_request_id: string | null;
}

type Queryable = Pick<Database, 'query'>;

/** Retention of loads and versions; versions in use are kept longer. */
export const KEPT = { days: 90, versions: 50, loads: 1000 } as const;
/** A replica without a report for this long is not listed. */
const GONE_SECONDS = 300;

/** Records a load. Raises store_unavailable. */
export async function recordLoad(database: Queryable, at: Date, load: RecordedLoad): Promise<void> {
  await database.query('config_load', 'select record_config_load($1, $2)', [at, JSON.stringify(load)]);
}

/** Records the configuration that a replica runs. Raises store_unavailable. */
export async function reportReplica(database: Queryable, id: string, replica: ReplicaConfig): Promise<void> {
  const { name, version, cause, loaded_at, failing_since, program, seen_at } = replica;
  await database.query(
    'config_replica',
    `insert into config_replicas (id, name, version, cause, loaded_at, failing_since, program, seen_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     on conflict (id) do update set version = excluded.version, cause = excluded.cause, loaded_at = excluded.loaded_at,
       failing_since = excluded.failing_since, seen_at = excluded.seen_at`,
    [id, name, version, cause, loaded_at, failing_since, program, seen_at],
  );
}

/** Removes a replica that has ended. Raises store_unavailable. */
export async function forgetReplica(database: Queryable, id: string): Promise<void> {
  await database.query('config_replica_gone', 'delete from config_replicas where id = $1', [id]);
}

/** Deletes old loads and versions. Raises store_unavailable. */
export async function tidyLoads(database: Queryable, now: Date): Promise<void> {
  const { days, versions, loads } = KEPT;
  await database.query('config_loads_tidy', 'select tidy_config_loads($1, $2, $3, $4)', [now, days, versions, loads]);
}

/** Lists the replicas by name. Raises store_unavailable. */
export async function listReplicas(database: Queryable, now: Date): Promise<ReplicaConfig[]> {
  return database.query<ReplicaConfig>(
    'config_replicas',
    `select name, version, cause, loaded_at, failing_since, program, seen_at from config_replicas
     where seen_at > $1 order by name, loaded_at`,
    [new Date(now.getTime() - GONE_SECONDS * 1000)],
  );
}

const LOAD = `id, at, replica, cause, failed, version, config_hash, changed, needs_restart, problem, program,
  jsonb_array_length(jsonb_path_query_array(findings, '$[*] ? (@.severity == "error")')) as errors,
  jsonb_array_length(jsonb_path_query_array(findings, '$[*] ? (@.severity == "warning")')) as warnings`;

/** Lists loads, the newest first; `before`: id of a load, to list older ones. Raises store_unavailable. */
export function listLoads(database: Queryable, only: { readonly before?: number | undefined; readonly limit: number }) {
  return database.query<ConfigLoad>(
    'config_loads',
    `select ${LOAD} from config_loads where ($1::bigint is null or id < $1) order by id desc limit $2`,
    [only.before ?? null, only.limit],
  );
}

/** The newest load that failed or succeeded; `undefined` without one. Raises store_unavailable. */
export async function lastLoad(database: Queryable, { failed }: { readonly failed: boolean }) {
  const [load] = await database.query<FoundLoad>(
    'config_load_last',
    `select ${LOAD}, findings from config_loads where failed = $1 order by id desc limit 1`,
    [failed],
  );
  return load;
}

/** A version with its latest load, by its name or hash; `undefined` when it is no longer stored. Raises store_unavailable. */
export async function readVersion(database: Queryable, version: string) {
  const [load] = await database.query<FoundLoad>(
    'config_load_of',
    `select ${LOAD}, findings from config_loads
     where (version = $1 or config_hash = $1) and version is not null order by (version = $1) desc, id desc limit 1`,
    [version],
  );
  if (load === undefined) return undefined;
  const [found] = await database.query<ConfigVersion>(
    'config_version',
    'select version, first_loaded_at, files, rules from config_versions where version = $1',
    [load.version],
  );
  return found && { ...found, load };
}

/** Counts the matches of each rule in shadow mode since the beginning of an hour. Raises store_unavailable. */
export async function countShadows(database: Queryable, since: Date): Promise<ShadowCount[]> {
  return database.query<ShadowCount>(
    'shadow_counts',
    `select name, sum(requests)::bigint as requests, jsonb_object_agg(upstream, requests) as by_upstream, max(last_at) as last_at,
       (array_agg(last_request_id order by last_at desc))[1] as last_request_id
     from (
       select name, upstream, sum(requests)::bigint as requests, max(last_at) as last_at,
         (array_agg(last_request_id order by last_at desc))[1] as last_request_id
       from shadow_hours where hour >= $1 group by name, upstream
     ) as each group by name order by name`,
    [since],
  );
}
