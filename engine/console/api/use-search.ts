import { useNavigate, useSearch } from '@tanstack/react-router';
import { useCallback } from 'react';
import type { PageSearch } from './page-search.ts';

/** The query of the page's address, and how to change some of it; what is `undefined` or empty leaves the address. */
export function usePageSearch(): readonly [PageSearch, (change: PageSearch, options?: { replace?: boolean }) => void] {
  const search = useSearch({ strict: false }) as PageSearch;
  const navigate = useNavigate();
  const change = useCallback(
    (parts: PageSearch, { replace = false } = {}) => {
      navigate({
        to: '.',
        search: ((before: PageSearch) => ({ ...before, ...parts })) as never,
        replace,
        resetScroll: false,
      });
    },
    [navigate],
  );
  return [search, change];
}
