import { usePageSearch } from '../../api/use-search.ts';
import { Button } from '../../parts/button.tsx';
import { Icon } from '../../parts/icon.tsx';

/** Links to all that the filters select, as files. */
export function Files({ lines, csv }: { lines: string; csv: string }) {
  return (
    <div className="audit-files">
      <a className="button secondary" href={csv} download>
        <Icon name="down" />
        CSV
      </a>
      <a className="button secondary" href={lines} download>
        <Icon name="down" />
        JSON lines
      </a>
    </div>
  );
}

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
