import type { PageSearch } from '../../api/page-search.ts';

/** What usage can be grouped by, with the words for it. */
export const DIMENSIONS = {
  user: 'Person',
  team: 'Team',
  project: 'Project',
  model: 'Model',
  upstream: 'Upstream',
  upstream_model: 'Model as the upstream calls it',
  protocol: 'Protocol',
  token: 'Token',
  token_group: 'Token group',
  answered_model: 'Model that answered instead',
  service_tier: 'Service tier',
  speed: 'Speed',
  status: 'Status',
  estimated: 'Estimated',
  hour: 'Hour',
  day: 'Day',
  week: 'Week',
  month: 'Month',
} as const;
/** One of them. */
export type Dimension = keyof typeof DIMENSIONS;

const NO_FILTER = new Set<Dimension>(['status', 'estimated', 'hour', 'day', 'week', 'month']);

/** The dimensions that usage can be narrowed down by. */
export const FILTERS = (Object.keys(DIMENSIONS) as Dimension[]).filter((name) => !NO_FILTER.has(name));

/** What the list of requests can be narrowed down by. */
const OF_REQUESTS = new Set<Dimension>([
  'user',
  'team',
  'project',
  'token',
  'token_group',
  'model',
  'upstream',
  'status',
]);

/** At most as many dimensions at once. */
export const MOST = 4;

/** Whether a text names a dimension. */
export function isDimension(text: string): text is Dimension {
  return Object.hasOwn(DIMENSIONS, text);
}

/** Whether a dimension is a time. */
export function isTime(name: string): boolean {
  return ['hour', 'day', 'week', 'month'].includes(name);
}

/** What usage is grouped by, as an address says it. */
export function dimensionsOf({ by }: PageSearch, fallback: Dimension): Dimension[] {
  const named = (by ?? '').split(',').filter(isDimension);
  return named.length === 0 ? [fallback] : [...new Set(named)].slice(0, MOST);
}

/** What usage is narrowed down by, as an address says it. */
export function filtersOf(search: PageSearch): Readonly<Partial<Record<Dimension, string>>> {
  return Object.fromEntries(FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : [])));
}

/** Values of some dimensions; null for requests that have none. */
export type Names = Readonly<Partial<Record<Dimension, string | null>>>;

/** The address of the requests that are meant; `undefined` where the list of requests cannot tell them apart. */
export function requestsOf(
  names: Names,
  period: { readonly since: string | null; readonly until: string },
): PageSearch | undefined {
  const parts = Object.entries(names) as [Dimension, string | null][];
  if (parts.some(([name, value]) => value === null || !OF_REQUESTS.has(name))) return undefined;
  return { ...(names as PageSearch), ...(period.since !== null && { since: period.since }), until: period.until };
}

/** What to group by once one knows which of something it is. */
export function finer(by: readonly Dimension[], name: Dimension): Dimension {
  const order: readonly Dimension[] = ['team', 'user', 'model', 'token', 'upstream'];
  const rest = order.filter((each) => each !== name && !by.includes(each));
  return rest.find((each) => name !== 'token' || each !== 'user') ?? 'day';
}

/** A value of a dimension in words. */
export function valueWords(name: Dimension, value: string | null | undefined): string {
  if (value === null || value === undefined) return `(no ${DIMENSIONS[name].toLowerCase()})`;
  if (name === 'estimated')
    return { yes: 'Estimated', no: 'Told by the upstream', clamped: 'More than possible' }[value] ?? value;
  return value;
}
