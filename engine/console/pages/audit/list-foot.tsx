import { usePageSearch } from '../../api/use-search.ts';
import { Button } from '../../parts/button.tsx';

/** The way to older entries and back to the latest. */
export function Turn({ next }: { next: number | null }) {
  const [{ before }, change] = usePageSearch();
  return (
    <div className="form-actions">
      {before !== undefined && <Button onClick={() => change({ before: undefined })}>Latest</Button>}
      {next !== null && <Button onClick={() => change({ before: String(next) })}>Older</Button>}
    </div>
  );
}
