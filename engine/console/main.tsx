import { CSPProvider } from '@base-ui/react/csp-provider';
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ProblemError } from './api/client.ts';
import { Console } from './frame/console.tsx';
import { chosenTheme, showTheme } from './frame/theme.ts';
import './look/tokens.css';
import './look/base.css';
import './look/parts.css';
import './look/tables.css';
import './look/panels.css';
import './look/forms.css';
import './look/chart.css';
import './look/frame.css';

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
