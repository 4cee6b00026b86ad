import { type FormEvent, useState } from 'react';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { Icon } from '../../parts/icon.tsx';
import { DIMENSIONS, type Dimension, FILTERS, MOST } from './question.ts';
import { dayAfter, isDay, RANGE_TITLES, RANGES, type RangeName, rangeOf, today } from './range.ts';

type Filters = Readonly<Partial<Record<Dimension, string>>>;

/** What is asked for: a time, what to group by, and what to leave out. */
export function Controls({ by, filters, is_admin }: { by: readonly Dimension[]; filters: Filters; is_admin: boolean }) {
  return (
    <div className="usage-controls">
      <Ranges />
      <Grouping by={by} />
      <FilterBy filters={filters} is_admin={is_admin} />
    </div>
  );
}

function Ranges() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const range = rangeOf(search);
  const choose = (name: RangeName) => {
    if (name !== 'custom') change({ range: name, since: undefined, until: undefined });
    else change({ range: undefined, since: dayAfter(today(time_zone), -13), until: dayAfter(today(time_zone), 1) });
  };
  return (
    <div className="usage-range">
      <fieldset className="choice">
        <legend className="unseen">Time</legend>
        {RANGES.map((name) => (
          <label key={name}>
            <input type="radio" name="range" value={name} checked={range === name} onChange={() => choose(name)} />
            <span>{RANGE_TITLES[name]}</span>
          </label>
        ))}
      </fieldset>
      {range === 'custom' && <Days />}
    </div>
  );
}

/** The first and the last day; an address says the day after the last. */
function Days() {
  const [{ since, until }, change] = usePageSearch();
  const last = isDay(until) ? dayAfter(until, -1) : '';
  return (
    <div className="filters">
      <TextField
        label="From"
        type="date"
        value={isDay(since) ? since : ''}
        {...(isDay(until) && { max: last })}
        onChange={({ target }) => change({ since: target.value || undefined }, { replace: true })}
        hint={since !== undefined && !isDay(since) ? since : undefined}
      />
      <TextField
        label="To (included)"
        type="date"
        value={last}
        {...(isDay(since) && { min: since })}
        onChange={({ target }) =>
          change({ until: isDay(target.value) ? dayAfter(target.value, 1) : undefined }, { replace: true })
        }
        hint={until !== undefined && !isDay(until) ? until : undefined}
      />
    </div>
  );
}

function Grouping({ by }: { by: readonly Dimension[] }) {
  const [, change] = usePageSearch();
  const put = (i: number, name: string) => {
    const next = name === '' ? by.toSpliced(i, 1) : by.toSpliced(i, 1, name as Dimension);
    change({ by: next.join(','), rows: undefined });
  };
  const places = by.length < MOST ? [...by, undefined] : by;
  return (
    <div className="filters">
      {places.map((name, i) => {
        const free = (Object.keys(DIMENSIONS) as Dimension[]).filter((each) => each === name || !by.includes(each));
        const none = i === 0 && by.length === 1 ? [] : [{ value: '', text: '–' }];
        return (
          <SelectField
            // biome-ignore lint/suspicious/noArrayIndexKey: a place keeps its focus when what is in it changes.
            key={i}
            label={i === 0 ? 'Group by' : 'and by'}
            value={name ?? ''}
            onChange={({ target }) => put(i, target.value)}
            options={[...none, ...free.map((value) => ({ value, text: DIMENSIONS[value] }))]}
          />
        );
      })}
    </div>
  );
}

function FilterBy({ filters, is_admin }: { filters: Filters; is_admin: boolean }) {
  const [, change] = usePageSearch();
  const [name, setName] = useState<Dimension>('model');
  const [value, setValue] = useState('');
  const names = FILTERS.filter((each) => is_admin || each !== 'user');
  const add = (event: FormEvent) => {
    event.preventDefault();
    if (value.trim() === '') return;
    change({ [name]: value.trim(), rows: undefined });
    setValue('');
  };
  return (
    <div className="usage-filters">
      <form className="filters" onSubmit={add}>
        <SelectField
          label="Only"
          value={name}
          onChange={({ target }) => setName(target.value as Dimension)}
          options={names.map((each) => ({ value: each, text: DIMENSIONS[each] }))}
        />
        <TextField
          label="is"
          value={value}
          onChange={({ target }) => setValue(target.value)}
          placeholder={PLACEHOLDERS[name] ?? ''}
        />
        <Button type="submit">Add filter</Button>
      </form>
      {Object.keys(filters).length > 0 && (
        <ul className="usage-chips" aria-label="Filters">
          {(Object.entries(filters) as [Dimension, string][]).map(([each, wanted]) => (
            <li key={each}>
              <button
                type="button"
                className="usage-chip"
                onClick={() => change({ [each]: undefined, rows: undefined })}
              >
                <span>
                  {DIMENSIONS[each]}: <strong>{wanted}</strong>
                </span>
                <span className="unseen">, take this filter away</span>
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const PLACEHOLDERS: Readonly<Partial<Record<Dimension, string>>> = {
  user: 'ana@example.com',
  protocol: 'messages',
  token: 'tok_…',
};
