import { CSPProvider } from '@base-ui/react/csp-provider';
import { MutationCache, QueryCache, QueryClient, QueryClientProvider, useQuery } from '@tanstack/react-query';
import { createRootRoute, createRoute, createRouter, RouterProvider } from '@tanstack/react-router';
import { StrictMode, useEffect } from 'react';
import { createRoot } from 'react-dom/client';
import {
  CONSOLE_PATH,
  type ConsoleSession,
  type PageSearch,
  ProblemError,
  readSession,
  SessionContext,
} from './api.ts';
import { ConnectionLine, chosenTheme, Frame, NotFound, PageFailed, SignInPage, showTheme } from './frame.tsx';
import { PAGES } from './pages/list.ts';
import { DialogArea, NoticeArea, ProblemBox, Skeleton } from './parts/basic.tsx';
import './look/tokens.css';
import './look/base.css';
import './look/parts.css';
import './look/frame.css';
import './look/pages.css';

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
      return (
        <DialogArea>
          <Page />
        </DialogArea>
      );
    },
    pendingComponent: () => <Skeleton lines={8} label="The page is loading" />,
    errorComponent: PageFailed,
  });
  return route;
});

/** Shows the page of the address. */
const router = createRouter({
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

/** How often it is asked whether the session goes on; each answer is a sign of life of the gateway as well. */
const SESSION_SECONDS = 30;

/** The whole application: who is there decides whether pages are shown, or how to sign in. */
function Console() {
  const session = useQuery<ConsoleSession, ProblemError>({
    queryKey: ['session'],
    queryFn: readSession,
    refetchInterval: ({ state }) => (state.status === 'error' ? 3000 : SESSION_SECONDS * 1000),
    retry: false,
  });
  const { data, error, refetch } = session;
  useEffect(() => {
    const look = () => void refetch();
    for (const event of ['offline', 'online']) window.addEventListener(event, look);
    return () => {
      for (const event of ['offline', 'online']) window.removeEventListener(event, look);
    };
  }, [refetch]);
  useEffect(() => {
    if (data !== undefined) document.title = data.name;
  }, [data]);
  if (data === undefined) {
    return (
      <main className="lone stack">
        {error === null ? (
          <Skeleton lines={6} label="The console is loading" />
        ) : (
          <ProblemBox problem={error} onRetry={() => refetch()} />
        )}
      </main>
    );
  }
  if (data.person === null) return <SignInPage session={data} />;
  return (
    <SessionContext value={{ ...data, person: data.person }}>
      <NoticeArea>
        <ConnectionLine failing={error} answered_at={session.dataUpdatedAt} />
        <RouterProvider router={router} />
      </NoticeArea>
    </SessionContext>
  );
}

/** Whoever is signed out meanwhile is shown how to sign in, and whoever lost the gateway is told so. */
const askWhoIsThere = (error: unknown, query?: { readonly queryKey: readonly unknown[] }) => {
  if (query?.queryKey[0] === 'session') return;
  if (error instanceof ProblemError && (error.status === 401 || error.status === 0))
    queries.invalidateQueries({ queryKey: ['session'] });
};

const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: askWhoIsThere }),
  mutationCache: new MutationCache({ onError: (error) => askWhoIsThere(error) }),
  defaultOptions: {
    // A machine without the Internet reaches a gateway of its own network all the same.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 5000,
      // What was refused is refused again; a gateway that is away is waited for by the frame.
      retry: (count, error) => count < 2 && error instanceof ProblemError && error.status >= 500,
    },
  },
});

showTheme(chosenTheme());
createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queries}>
        <Console />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
);
