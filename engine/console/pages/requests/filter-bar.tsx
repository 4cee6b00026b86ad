import type { PageSearch } from '../../api/page-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { SearchField, SelectField, TextField } from '../../parts/field.tsx';
import { dayAfter, isDay } from '../usage/range.ts';
import { filtersOf, NO_FILTERS, RESULTS, resultOf, searchForResult, type TextFilter } from './filters.ts';

interface Filtering {
  readonly search: PageSearch;
  readonly change: (parts: PageSearch) => void;
}

const LESS_USED: readonly (readonly [TextFilter, string])[] = [
  ['team', 'Team'],
  ['project', 'Project'],
  ['token', 'Token id'],
  ['token_group', 'Token group'],
  ['client', 'Client'],
  ['error', 'Error code'],
];

/** What the list is narrowed down by; a text takes effect with Enter, or when its field is left. */
export function FilterBar({ search, change }: Filtering) {
  const { person } = useSession();
  const filters = filtersOf(search);
  const result = resultOf(filters);
  const is_listed = RESULTS.some(({ value }) => value === result);
  const options = is_listed ? RESULTS : [...RESULTS, { value: result, text: result }];
  const uses_less = LESS_USED.some(([name]) => filters[name] !== undefined);
  const is_filtered = Object.keys(filters).length > 0;
  const field = (name: TextFilter, label: string) => (
    <SearchField key={name} label={label} value={search[name] ?? ''} onSet={(value) => change({ [name]: value })} />
  );
  return (
    <search className="requests-filters">
      <div className="filters">
        {person.is_admin && field('user', 'Person')}
        {field('model', 'Model')}
        {field('upstream', 'Upstream')}
        <SelectField
          label="Result"
          options={[...options]}
          value={result}
          onChange={(event) => change(searchForResult(event.target.value))}
        />
        <Moment label="From" value={search.since ?? ''} onSet={(since) => change({ since })} />
        <Moment label="To (included)" is_last value={search.until ?? ''} onSet={(until) => change({ until })} />
        {is_filtered && (
          <Button kind="quiet" onClick={() => change(NO_FILTERS)}>
            Clear filters
          </Button>
        )}
      </div>
      <details open={uses_less}>
        <summary>More filters</summary>
        <div className="filters">{LESS_USED.map(([name, label]) => field(name, label))}</div>
      </details>
    </search>
  );
}

interface Setting {
  readonly label: string;
  readonly value: string;
  readonly onSet: (value: string | undefined) => void;
}

/** A day, where it is the last one as people say it: the address has the day after. A link from another page may name a moment. */
function Moment({ label, value, onSet, is_last = false }: Setting & { readonly is_last?: boolean }) {
  if (value.includes('T')) return <SearchField label={label.replace(' (included)', '')} {...{ value, onSet }} />;
  const moved = (day: string, days: number) => (is_last && isDay(day) ? dayAfter(day, days) : day);
  return (
    <TextField
      label={label}
      type="date"
      value={moved(value, -1)}
      onChange={({ target }) => onSet(moved(target.value, 1) || undefined)}
    />
  );
}
