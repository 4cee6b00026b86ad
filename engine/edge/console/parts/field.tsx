import { type InputHTMLAttributes, type ReactNode, useId, useState } from 'react';
import { type PageSearch, usePageSearch } from '../api.ts';
import { dayAfter, isDay } from '../ranges.ts';
import { Button } from './basic.tsx';

/** An option: a value, with its text if that differs. */
export type Option = string | readonly [value: string, text: string];

interface FieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange'> {
  readonly label: string;
  readonly hint?: ReactNode;
  readonly error?: string | undefined;
  readonly options?: readonly Option[] | undefined;
  readonly onValue: (value: string) => void;
}

/** A field with label, hint and error. */
export function Field({ label, hint, error, options, onValue, ...rest }: FieldProps) {
  const id = useId();
  const field = {
    autoComplete: 'off',
    ...rest,
    id,
    'aria-invalid': error !== undefined || undefined,
    'aria-describedby': `${id}-more`,
    onChange: ({ target }: { readonly target: { readonly value: string } }) => onValue(target.value),
  };
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {options === undefined ? (
        <input {...field} />
      ) : (
        <select {...(field as object)}>
          {options.map((each) => {
            const [value, text] = typeof each === 'string' ? [each, each] : each;
            return (
              <option key={value} value={value}>
                {text}
              </option>
            );
          })}
        </select>
      )}
      <p id={`${id}-more`} className="field-more">
        {error !== undefined ? (
          <span className="field-error" role="alert">
            {error}
          </span>
        ) : (
          hint
        )}
      </p>
    </div>
  );
}

/** A text input that applies on Enter or blur. */
function SearchField({ value, onValue, ...rest }: FieldProps & { readonly value: string }) {
  const [text, setText] = useState(value);
  const [set_before, setBefore] = useState(value);
  // The URL may have changed; resets the text without losing focus.
  if (set_before !== value) {
    setBefore(value);
    setText(value);
  }
  const set = () => text.trim() !== value && onValue(text.trim());
  return (
    <Field
      {...rest}
      type="search"
      spellCheck={false}
      value={text}
      onValue={setText}
      onBlur={set}
      onKeyDown={({ key }) => key === 'Enter' && set()}
    />
  );
}

/** A filter of a list, stored in the URL. */
export interface Filter {
  readonly name: string;
  readonly label?: string;
  readonly options?: readonly Option[];
  readonly is_date?: boolean;
  /** End date: the field shows the last day, the URL has the day after (exclusive). */
  readonly is_end?: boolean;
  readonly placeholder?: string;
  readonly is_minor?: boolean;
  /** Value, if it is not that of the URL parameter. */
  readonly value?: string;
  readonly searchFor?: (value: string) => PageSearch;
}

/** Filters of a period. */
export const PERIOD: readonly Filter[] = [
  { name: 'since', label: 'From', is_date: true },
  { name: 'until', label: 'To (included)', is_date: true, is_end: true },
];

/** Filter of lists that leave out what has ended. */
export const ENDED: Filter = {
  name: 'ended',
  label: 'State',
  options: [
    ['', 'active'],
    ['true', 'all'],
  ],
};

function clearedFilters(of: readonly Filter[]): PageSearch {
  return Object.fromEntries(of.flatMap(({ name, searchFor }) => Object.entries(searchFor?.('') ?? { [name]: '' })));
}

/** Parameters of an operation for the filters of the URL. */
export function filtersIn(search: PageSearch, of: readonly Filter[]): PageSearch {
  const named = Object.keys(clearedFilters(of)).map((name) => [name, search[name]?.trim()]);
  return Object.fromEntries(named.filter(([, value]) => value));
}

/** Filters of a list, stored in the URL so that a link shows the same list. */
export function Filters({
  of,
  clear,
  resets = {},
}: {
  readonly of: readonly Filter[];
  /** Text of the button that clears all filters; absent: no button. */
  readonly clear?: string | undefined;
  /** URL parameters reset by each change, such as the cursor. */
  readonly resets?: PageSearch;
}) {
  const [search, change] = usePageSearch();
  const field = (filter: Filter) => <FilterField key={filter.name} filter={filter} resets={resets} />;
  const minor = of.filter(({ is_minor }) => is_minor);
  const none = clearedFilters(of);
  return (
    <search className="stack">
      <div className="filters">
        {of.filter(({ is_minor }) => !is_minor).map(field)}
        {clear !== undefined && Object.keys(none).some((name) => search[name]) && (
          <Button kind="quiet" onClick={() => change({ ...none, ...resets })}>
            {clear}
          </Button>
        )}
      </div>
      {minor.length > 0 && (
        <details open={minor.some(({ name }) => search[name])}>
          <summary className="soft small">More filters</summary>
          <div className="filters">{minor.map(field)}</div>
        </details>
      )}
    </search>
  );
}

function FilterField({ filter, resets }: { filter: Filter; resets: PageSearch }) {
  const { name, label = titleOf(name), options, is_date, is_end, placeholder, searchFor } = filter;
  const [search, change] = usePageSearch();
  const value = filter.value ?? search[name] ?? '';
  const set = (text: string) => change({ ...(searchFor?.(text) ?? { [name]: text }), ...resets });
  if (options !== undefined) return <Field {...{ label, options, value }} onValue={set} />;
  // A link from another page may contain a time.
  if (!is_date || value.includes('T')) {
    return (
      <SearchField label={label.replace(' (included)', '')} {...{ value, placeholder, maxLength: 254 }} onValue={set} />
    );
  }
  const moved = (day: string, days: number) => (is_end && isDay(day) ? dayAfter(day, days) : day);
  return <Field type="date" label={label} value={moved(value, -1)} onValue={(day) => set(moved(day, 1))} />;
}

/** Name of a field or parameter for people: `Token group`. */
export function titleOf(name: string): string {
  return `${name[0]!.toUpperCase()}${name.slice(1)}`.replaceAll('_', ' ');
}
