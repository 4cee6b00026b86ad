import type { PageSearch } from '../../api/page-search.ts';

/** What the list can be narrowed down by, with a text of its own each. */
const TEXT_FILTERS = [
  'user',
  'team',
  'project',
  'token',
  'token_group',
  'model',
  'upstream',
  'client',
  'error',
] as const;
/** One of them. */
export type TextFilter = (typeof TEXT_FILTERS)[number];

/** Filters of the address as the admin API takes them. */
export type RequestFilters = Readonly<Partial<Record<TextFilter | 'status' | 'since' | 'until', string>>> & {
  readonly outcome?: 'refused' | 'failed';
};

/** How requests ended, as one can ask for it: `status` or `outcome` of the address. */
export const RESULTS = [
  { value: '', text: 'Any' },
  { value: 'refused', text: 'Refused or given up' },
  { value: 'failed', text: 'Any error' },
  { value: '2xx', text: '2xx' },
  { value: '4xx', text: '4xx' },
  { value: '429', text: '429' },
  { value: '5xx', text: '5xx' },
] as const;

/** What an address asks for; what no gateway would take is left out. */
export function filtersOf(search: PageSearch): RequestFilters {
  const { status, outcome, failed, since, until } = search;
  const texts = TEXT_FILTERS.flatMap((name) => (search[name]?.trim() ? [[name, search[name]]] : []));
  const wanted = failed === 'yes' ? 'failed' : outcome;
  return {
    ...Object.fromEntries(texts),
    ...(status !== undefined && /^[1-5](\d\d|xx)$/.test(status) && { status }),
    ...((wanted === 'refused' || wanted === 'failed') && { outcome: wanted }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
}

/** The result that an address asks for, as a value of `RESULTS`, or a status of its own. */
export function resultOf({ status, outcome }: RequestFilters): string {
  return outcome ?? status ?? '';
}

/** What to write into the address for a result. */
export function searchForResult(value: string): PageSearch {
  const is_outcome = value === 'refused' || value === 'failed';
  return {
    outcome: is_outcome ? value : undefined,
    status: is_outcome || value === '' ? undefined : value,
    failed: undefined,
  };
}

/** An address without any filter. */
export const NO_FILTERS: PageSearch = Object.fromEntries(
  [...TEXT_FILTERS, 'status', 'outcome', 'failed', 'since', 'until'].map((name) => [name, undefined]),
);
