import { type FormEvent, type ReactNode, useId } from 'react';
import type { PageSearch } from '../../api/page-search.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';

/** Fields by which a list is narrowed. They are in the page's address as well, so that a link leads to the same list. */
export function Filters({
  label,
  names,
  children,
}: {
  label: string;
  /** What the fields are called, `since` and `until` among them. */
  names: readonly string[];
  children: ReactNode;
}) {
  const [search, change] = usePageSearch();
  const form = useId();
  const set = names.filter((name) => search[name]);
  const show = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const said = names.map((name) => [name, String(given.get(name) ?? '').trim() || undefined]);
    change({ ...(Object.fromEntries(said) as PageSearch), before: undefined, open: undefined });
  };
  const clear = () => change(Object.fromEntries([...names, 'before', 'open'].map((name) => [name, undefined])));
  return (
    // Who comes back by the address or the browser's buttons finds the fields as they were.
    <form
      key={names.map((name) => search[name]).join('\n')}
      id={form}
      className="filters audit-filters"
      role="search"
      aria-label={label}
      onSubmit={show}
    >
      <TextField label="From" name="since" type="date" defaultValue={search.since?.slice(0, 10)} />
      <TextField label="To (included)" name="until" type="date" defaultValue={search.until?.slice(0, 10)} />
      {children}
      <Button type="submit">Show</Button>
      {set.length > 0 && (
        <Button kind="quiet" onClick={clear}>
          Show all
        </Button>
      )}
    </form>
  );
}
