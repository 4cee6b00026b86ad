import { createRootRoute, createRoute, createRouter } from '@tanstack/react-router';
import { CONSOLE_PATH } from './api/client.ts';
import type { PageSearch } from './api/page-search.ts';
import { Frame } from './frame/frame.tsx';
import { NotFound } from './frame/not-found.tsx';
import { PageFailed } from './frame/page-failed.tsx';
import { PAGES } from './pages/list.ts';
import { Skeleton } from './parts/states.tsx';

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound, errorComponent: PageFailed });
const routes = PAGES.map(({ path, load }) => {
  // Not the router's own lazy component: that loads the whole console again where a file cannot be had, also while the
  // gateway is away.
  const route = createRoute({
    getParentRoute: () => root,
    path,
    loader: load,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: Number.POSITIVE_INFINITY,
    component: function LoadedPage() {
      const { Page } = route.useLoaderData() as Awaited<ReturnType<typeof load>>;
      return <Page />;
    },
    pendingComponent: () => <Skeleton lines={8} label="The page is loading" />,
    errorComponent: PageFailed,
  });
  return route;
});

/** Shows the page of the address. */
export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: CONSOLE_PATH,
  trailingSlash: 'never',
  scrollRestoration: true,
  defaultPendingMs: 50,
  defaultPendingMinMs: 0,
  // An address says what it says: "5" is no number, and nothing of JSON.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search: PageSearch) => {
    const pairs = Object.entries(search).flatMap(([key, value]) =>
      value === undefined || value === '' ? [] : [[key, value]],
    );
    const text = new URLSearchParams(pairs).toString();
    return text === '' ? '' : `?${text}`;
  },
});
