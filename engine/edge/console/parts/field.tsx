import { type InputHTMLAttributes, type ReactNode, useId, useState } from 'react';
import { type PageSearch, usePageSearch } from '../api.ts';
import { dayAfter, isDay } from '../ranges.ts';
import { Button } from './basic.tsx';

/** One of a choice: its value, and its words where they are others. */
export type Option = string | readonly [value: string, text: string];

interface FieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange'> {
  readonly label: string;
  readonly hint?: ReactNode;
  /** What is wrong with what it holds. */
  readonly error?: string | undefined;
  /** What there is to choose from; without them the field holds a text. */
  readonly options?: readonly Option[] | undefined;
  readonly onValue: (value: string) => void;
}

/** A field with its label, a hint below, and what is wrong with it. */
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

/** A text that takes effect with Enter, or when its field is left. */
function SearchField({ value, onValue, ...rest }: FieldProps & { readonly value: string }) {
  const [text, setText] = useState(value);
  const [set_before, setBefore] = useState(value);
  // A link or the browser's buttons may have changed it; the field stays the same one, and keeps its focus.
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

/** One thing that a list is narrowed down by, which is in the page's address. */
export interface Filter {
  /** What the address calls it. */
  readonly name: string;
  readonly label: string;
  readonly options?: readonly Option[];
  readonly is_date?: boolean;
  /** Of a date: people name the last day, and the address has the day after. */
  readonly is_end?: boolean;
  readonly placeholder?: string;
  readonly maxLength?: number;
  /** Whether it is behind "More filters". */
  readonly is_minor?: boolean;
  /** What it holds, where that is more than what the address has by its name. */
  readonly value?: string;
  /** What its value is in the address. */
  readonly searchFor?: (value: string) => PageSearch;
}

/** The names that filters have in an address, each without a value. */
export function clearedFilters(of: readonly Filter[]): PageSearch {
  return Object.fromEntries(of.flatMap(({ name, searchFor }) => Object.entries(searchFor?.('') ?? { [name]: '' })));
}

/** What a list is narrowed down by: in the page's address, so that a link shows the same. */
export function Filters({
  of,
  clear,
  resets = {},
  children,
}: {
  readonly of: readonly Filter[];
  /** What the button says that takes all of them away; there is none without. */
  readonly clear?: string | undefined;
  /** What leaves the address with each change, such as the page one was at. */
  readonly resets?: PageSearch;
  readonly children?: ReactNode;
}) {
  const [search, change] = usePageSearch();
  const field = (filter: Filter) => <FilterField key={filter.name} filter={filter} resets={resets} />;
  const minor = of.filter(({ is_minor }) => is_minor);
  const none = clearedFilters(of);
  return (
    <search className="stack">
      <div className="filters">
        {of.filter(({ is_minor }) => !is_minor).map(field)}
        {children}
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
  const { name, label, options, is_date, is_end, placeholder, maxLength = 254, searchFor } = filter;
  const [search, change] = usePageSearch();
  const value = filter.value ?? search[name] ?? '';
  const set = (text: string) => change({ ...(searchFor?.(text) ?? { [name]: text }), ...resets });
  if (options !== undefined) return <Field {...{ label, options, value }} onValue={set} />;
  // A link from another page may name a moment.
  if (!is_date || value.includes('T')) {
    return (
      <SearchField label={label.replace(' (included)', '')} {...{ value, placeholder, maxLength }} onValue={set} />
    );
  }
  const moved = (day: string, days: number) => (is_end && isDay(day) ? dayAfter(day, days) : day);
  return <Field type="date" label={label} value={moved(value, -1)} onValue={(day) => set(moved(day, 1))} />;
}
