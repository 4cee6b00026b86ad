import { createHash } from 'node:crypto';
import type { Database } from '../store/database.ts';

/** A part of the log, with of each record what was asked for. */
export interface FactPage {
  readonly rows: readonly FactRow[];
  /** When the last of them was recorded. */
  readonly at: Date;
}

/** One record. */
export interface FactRow {
  /** A JSON object with the fields that were asked for, as text: many records have the same. */
  readonly facts: string;
  /** E-mail address. */
  readonly person: string | null;
  /** Whether it was known who asked. */
  readonly is_known: boolean;
}

const PAGE = 5000;

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** PostgreSQL takes a hundred arguments of a function. */
const PAIRS_MAX = 40;

function object(pairs: readonly string[]): string {
  const parts = [];
  for (let i = 0; i < pairs.length; i += PAIRS_MAX)
    parts.push(`jsonb_build_object(${pairs.slice(i, i + PAIRS_MAX).join(', ')})`);
  return parts.join(' || ');
}

/** The text of an object with these fields of a record; those it lacks are left out. */
function projection(fields: readonly string[], seen: readonly string[]): string {
  const of_record = fields.map((field) => `${literal(field)}, record -> ${literal(field)}`);
  const of_seen = seen.map((path) => `${literal(path)}, record -> 'seen' -> ${literal(path)}`);
  const others = of_seen.length === 0 ? [] : [`'seen', ${object(of_seen)}`, `'found', record -> 'found'`];
  return `jsonb_strip_nulls(${object([...of_record, ...others])})::text`;
}

/**
 * Reads a time of the log from its beginning to its end, page by page, without holding anything between them.
 * @param fields names of fields of records, and `seen` paths of facts.
 * Raises store_unavailable.
 */
export async function* factPages(
  database: Pick<Database, 'query'>,
  { since, until }: { readonly since: Date; readonly until: Date },
  { fields, seen }: { readonly fields: readonly string[]; readonly seen: readonly string[] },
): AsyncIterable<FactPage> {
  const facts = projection(fields, seen);
  const name = `audit_facts_${createHash('sha256').update(facts).digest('hex').slice(0, 12)}`;
  const text = `select id, at, at::text as moment, record ->> 'user' as person, record ->> 'principal' is not null as is_known,
       ${facts} as facts
     from audit_log where (at, id) > ($1::timestamptz, $2::bigint) and at < $3
     order by at, id limit ${PAGE}`;
  let after: readonly [moment: string, id: number] = [since.toISOString(), -1];
  for (;;) {
    const rows = await database.query<FactRow & { id: number; at: Date; moment: string }>(name, text, [
      ...after,
      until,
    ]);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield { rows, at: last.at };
    if (rows.length < PAGE) return;
    after = [last.moment, last.id];
  }
}
