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
  // Not the router's lazy component, which reloads the console if a chunk fails to load, even while the gateway is unreachable.
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
    pendingComponent: () => <Skeleton label="The page is loading" />,
    errorComponent: PageFailed,
  });
  return route;
});

const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: CONSOLE_PATH,
  trailingSlash: 'never',
  scrollRestoration: true,
  defaultPendingMs: 50,
  defaultPendingMinMs: 0,
  // Query values stay texts: the router would parse "5" and JSON.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search: PageSearch) => {
    const pairs = Object.entries(search).flatMap(([key, value]) =>
      value === undefined || value === '' ? [] : [[key, value]],
    );
    const text = new URLSearchParams(pairs).toString();
    return text === '' ? '' : `?${text}`;
  },
});

/** Polling interval of the session, which also detects that the gateway is unreachable. */
const SESSION_SECONDS = 30;

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
          <Skeleton label="The console is loading" />
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

/** Refetches the session after a 401 or a network error, which shows the sign-in page or the connection status. */
const checkSession = (error: unknown, query?: { readonly queryKey: readonly unknown[] }) => {
  if (query?.queryKey[0] === 'session') return;
  if (error instanceof ProblemError && (error.status === 401 || error.status === 0))
    queries.invalidateQueries({ queryKey: ['session'] });
};

const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: checkSession }),
  mutationCache: new MutationCache({ onError: (error) => checkSession(error) }),
  defaultOptions: {
    // The gateway may be reachable without Internet access.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 5000,
      // Rejections are final, and the frame handles an unreachable gateway.
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
