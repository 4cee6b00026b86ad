/** What gateways loaded, in the database: each load, its files and rules, and what each replica runs. @module */
import type { Database } from '../../base/store/database.ts';

/** Why a configuration was loaded: the gateway started, its files changed, or a signal asked for it. */
export type LoadCause = 'start' | 'files' | 'signal';

/** A file of a configuration. */
export interface KeptFile {
  /** Below the directory of gateway.yaml, or below `appscli/` for what ships with the program; else its whole path. */
  readonly name: string;
  /** With secrets blanked out; `null` for what is no configuration text, and for what is too long. */
  readonly text: string | null;
  /** 12 hexadecimal digits of its content where that is code; `null` where `text` says all. */
  readonly digest: string | null;
}

/** A rule of a configuration in words, with the lines where it is written. */
export interface KeptRule {
  readonly kind: string;
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  /** The condition as a sentence. */
  readonly text: string;
  /** What happens when it holds. */
  readonly effect: string;
  /** As `KeptFile.name`. */
  readonly file: string;
  readonly line: number;
  /** What is written for it: the whole entry of a stage whose condition it is. */
  readonly first_line: number;
  readonly last_line: number;
}

/** What `check` would say of a configuration. */
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

/** One load as it is told to the database. */
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

/** One load as the database tells it. */
export interface ConfigLoad extends Omit<RecordedLoad, 'files' | 'rules' | 'findings'> {
  readonly id: number;
  readonly at: Date;
  /** How many findings of each severity it has. */
  readonly errors: number;
  readonly warnings: number;
}

/** One load with its findings. */
export interface FoundLoad extends ConfigLoad {
  readonly findings: readonly KeptFinding[];
}

/** What a replica runs. */
export interface ReplicaConfig {
  readonly name: string;
  readonly version: string;
  readonly cause: LoadCause;
  readonly loaded_at: Date;
  /** Since when it could not load what its files hold; `null` while it can. */
  readonly failing_since: Date | null;
  readonly program: string;
  readonly seen_at: Date;
}

/** What is kept of a version. */
export interface ConfigVersion {
  readonly version: string;
  readonly first_loaded_at: Date;
  readonly files: readonly KeptFile[];
  readonly rules: readonly KeptRule[] | null;
}

/** How often a rule in shadow mode held, and which request was the last. */
export interface ShadowCount {
  readonly name: string;
  readonly requests: number;
  /** Requests by the upstream that served them; an empty name where none was chosen. */
  readonly by_upstream: Readonly<Record<string, number>>;
  readonly last_at: Date;
  readonly last_request_id: string | null;
}

type Asking = Pick<Database, 'query'>;

/** Loads and versions are kept so long; what a replica runs is kept for longer. */
export const KEPT = { days: 90, versions: 50, loads: 1000 } as const;
/** A replica that has said nothing for so long is not listed. */
const GONE_SECONDS = 300;

/** Keeps a load. Raises store_unavailable. */
export async function recordLoad(database: Asking, at: Date, load: RecordedLoad): Promise<void> {
  await database.query('config_load', 'select record_config_load($1, $2)', [at, JSON.stringify(load)]);
}

/** Says what a replica runs. Raises store_unavailable. */
export async function tellReplica(database: Asking, id: string, replica: ReplicaConfig): Promise<void> {
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

/** A replica that has ended runs nothing any more. Raises store_unavailable. */
export async function forgetReplica(database: Asking, id: string): Promise<void> {
  await database.query('config_replica_gone', 'delete from config_replicas where id = $1', [id]);
}

/** Forgets what is too old. Raises store_unavailable. */
export async function tidyLoads(database: Asking, now: Date): Promise<void> {
  const { days, versions, loads } = KEPT;
  await database.query('config_loads_tidy', 'select tidy_config_loads($1, $2, $3, $4)', [now, days, versions, loads]);
}

/** What each replica runs, by name. Raises store_unavailable. */
export async function listReplicas(database: Asking, now: Date): Promise<ReplicaConfig[]> {
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

/** Loads, the newest first; with `before` only those older than the one with this id. Raises store_unavailable. */
export async function listLoads(
  database: Asking,
  only: { readonly before?: number | undefined; readonly limit: number },
): Promise<ConfigLoad[]> {
  return database.query<ConfigLoad>(
    'config_loads',
    `select ${LOAD} from config_loads where ($1::bigint is null or id < $1) order by id desc limit $2`,
    [only.before ?? null, only.limit],
  );
}

/** The newest load that failed, or that did not; `undefined` where there is none. Raises store_unavailable. */
export async function lastLoad(database: Asking, only: { readonly failed: boolean }): Promise<FoundLoad | undefined> {
  const [load] = await database.query<FoundLoad>(
    'config_load_last',
    `select ${LOAD}, findings from config_loads where failed = $1 order by id desc limit 1`,
    [only.failed],
  );
  return load;
}

/**
 * A version with its latest load, by its name or by the hash that metrics and audit records tell; `undefined` when it is not kept
 * any more. Raises store_unavailable.
 */
export async function readVersion(
  database: Asking,
  version: string,
): Promise<(ConfigVersion & { readonly load: FoundLoad }) | undefined> {
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

/** How often each rule in shadow mode held since an hour began. Raises store_unavailable. */
export async function countShadows(database: Asking, since: Date): Promise<ShadowCount[]> {
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
