import { usePageSearch } from '../api/use-search.ts';
import { Button } from './button.tsx';

/** The way to the next page of a list and back to its first; the part of the address that is named says where a page begins. */
export function Turn({ name = 'after', next }: { name?: string; next: string | number | null }) {
  const [search, change] = usePageSearch();
  if (search[name] === undefined && next === null) return null;
  return (
    <div className="turn">
      {search[name] !== undefined && <Button onClick={() => change({ [name]: undefined })}>First page</Button>}
      {next !== null && <Button onClick={() => change({ [name]: String(next) })}>Next page</Button>}
    </div>
  );
}
