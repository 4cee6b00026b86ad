import type { AuditRecord } from '../contract/services.ts';

/** One value, or several of which one must match. */
type OneOf = string | readonly string[];

/** Which requests are wanted; every field that is present must match. */
export interface RequestFilter {
  /** E-mail addresses in lower case. */
  readonly user?: OneOf | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  /** Id of an access token or session. */
  readonly token?: string | undefined;
  readonly token_group?: string | undefined;
  /** Its id. */
  readonly model?: OneOf | undefined;
  readonly upstream?: string | undefined;
  readonly client?: string | undefined;
  /** Error code of the gateway. */
  readonly error?: OneOf | undefined;
  /** Three digits, or a class such as `4xx`. */
  readonly status?: string | undefined;
  /** `refused`: the gateway said no. `failed`: it ended with a status from 400 on, whoever said it. */
  readonly outcome?: 'refused' | 'failed' | undefined;
  /** What one of these did, or would have done were it not in shadow mode: see `rulesMatch`. */
  readonly rules?: readonly string[] | undefined;
  /** Something in shadow mode held; where there are names one of these. */
  readonly shadow?: true | readonly string[] | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
}

/** The field of a record that each filter is compared with. */
const FIELDS = {
  user: 'user',
  team: 'team',
  project: 'project',
  token: 'token_id',
  token_group: 'token_group',
  model: 'model',
  upstream: 'upstream',
  client: 'client',
  error: 'error',
} as const satisfies Partial<Record<keyof RequestFilter, string>>;

/** Values of fields; of a list what it must contain. */
type Fields = Readonly<Record<string, string | number | readonly string[]>>;

const asList = (value: OneOf): readonly string[] => (typeof value === 'string' ? [value] : value);

/** The kinds of rules, as shadow marks begin, and where a record says that one of them decided. */
const KINDS: Readonly<Record<string, (name: string) => Fields>> = {
  access: (name) => ({ refused_by: `access rule ${name}` }),
  spend: (name) => ({ spend_rule: name }),
  routing: (name) => ({ route_rule: name }),
};

/** The marks that something of this name leaves in shadow mode. */
function shadowMarks(name: string): Fields[] {
  const [kind = ''] = name.split(':', 1);
  if (Object.hasOwn(KINDS, kind)) return [{ shadow: [name] }];
  const { stage, ...pipeline } = stageNamed(name);
  return [...Object.keys(KINDS).map((each) => `${each}:${name}`), stage].map((mark) => ({
    shadow: [mark],
    ...(mark === stage && pipeline),
  }));
}

/** A stage by its id, or as `explain rules` writes it: with its pipeline. */
function stageNamed(name: string): { readonly stage: string; readonly pipeline?: string } {
  const slash = name.indexOf('/');
  return slash < 0 ? { stage: name } : { pipeline: name.slice(0, slash), stage: name.slice(slash + 1) };
}

/**
 * What a record has to hold to be about a rule: one of `access.rules`, `routing.rules` or `spend_limits`, by its name alone or as
 * `access:<name>`; a stage that refused, by its id or as `<pipeline>/<id>`; or what refused a model, as the record has it.
 */
function rulesMatch(name: string): Fields[] {
  const [kind = ''] = name.split(':', 1);
  const own = Object.hasOwn(KINDS, kind) ? KINDS[kind]!(name.slice(kind.length + 1)) : undefined;
  if (own !== undefined) return [own, ...shadowMarks(name)];
  const decided = Object.values(KINDS).map((fieldsOf) => fieldsOf(name));
  const models = ['policy', 'token group'].map((by) => ({ refused_by: `${by} ${name}` }));
  return [...decided, ...models, { refused_by: name }, { ...stageNamed(name) }, ...shadowMarks(name)];
}

const isClass = (status: string) => status.endsWith('xx');

/** What a record has to hold. */
export interface Wanted {
  /** All of it. */
  readonly fields: Fields;
  /** And one of each list. */
  readonly choices: readonly (readonly Fields[])[];
}

/** What a record has to hold to be one of those that are wanted, apart from its time and the class of its status. */
export function wanted(filter: RequestFilter): Wanted {
  const { status, rules, shadow } = filter;
  const lists = Object.entries(FIELDS).flatMap(([name, field]) => {
    const value = filter[name as keyof typeof FIELDS];
    return value === undefined ? [] : [asList(value).map((each): Fields => ({ [field]: each }))];
  });
  const exact = status !== undefined && !isClass(status) ? [{ status: Number(status) }] : [];
  const single = lists.flatMap((list) => (list.length === 1 ? list : []));
  return {
    fields: Object.assign({}, ...single, ...exact),
    choices: [
      ...lists.filter((list) => list.length !== 1),
      ...(rules === undefined ? [] : [rules.flatMap(rulesMatch)]),
      ...(Array.isArray(shadow) ? [shadow.flatMap(shadowMarks)] : []),
    ],
  };
}

/** How many fields have to be compared beside the one that an index leads to. */
export function comparedFields(filter: RequestFilter, found_by: 'user' | 'token' | undefined): number {
  const { rules, status } = filter;
  const fields = Object.keys(FIELDS).filter((name) => filter[name as keyof RequestFilter] !== undefined);
  const is_exact = status !== undefined && !isClass(status);
  const others = Number(is_exact) + Number(rules !== undefined) + Number(filter.shadow !== undefined);
  return fields.filter((name) => name !== found_by).length + others;
}

/** First digits of the statuses that are wanted. */
export function classesOf({ status, outcome }: RequestFilter): string[] | null {
  const by_outcome = { refused: ['4', '5'], failed: ['4', '5'] };
  const of_status = status === undefined ? undefined : [status[0]!];
  const of_outcome = outcome === undefined ? undefined : by_outcome[outcome];
  if (of_status === undefined) return of_outcome ?? null;
  return of_outcome === undefined ? of_status : of_status.filter((digit) => of_outcome.includes(digit));
}

/** Tells whether a record is one of those that are wanted, whenever it was. */
export function fitter(filter: RequestFilter): (record: AuditRecord) => boolean {
  const classes = classesOf(filter);
  const { fields: all, choices } = wanted(filter);
  const holds = (value: unknown, asked: Fields[string]) =>
    typeof asked === 'object' ? Array.isArray(value) && asked.every((each) => value.includes(each)) : value === asked;
  const hasAll = (record: AuditRecord, fields: Fields) =>
    Object.entries(fields).every(([field, asked]) => holds(record[field], asked));
  return (record) =>
    hasAll(record, all) &&
    choices.every((list) => list.some((fields) => hasAll(record, fields))) &&
    (classes === null || classes.includes(String(record.status ?? '')[0] ?? '')) &&
    (filter.outcome !== 'refused' || (record.error !== null && record.error !== undefined)) &&
    (filter.shadow === undefined || (Array.isArray(record.shadow) && record.shadow.length > 0));
}
