import { Link } from '@tanstack/react-router';
import type { PageSearch } from '../api/page-search.ts';

interface Tab {
  readonly text: string;
  readonly search: PageSearch;
  readonly is_shown: boolean;
}

/** Links between the lists or views of one page. */
export function Tabs({ label, path, tabs }: { label: string; path: string; tabs: readonly Tab[] }) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map(({ text, search, is_shown }) => (
        <Link
          key={text}
          to={path as never}
          search={search as never}
          // Without `exact` the router takes a tab for the one that is shown where the address says more than it.
          activeOptions={{ exact: true }}
          {...(is_shown && { 'aria-current': 'page' })}
        >
          {text}
        </Link>
      ))}
    </nav>
  );
}
