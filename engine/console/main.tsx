import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ProblemError } from './api/client.ts';
import { Console } from './frame/console.tsx';
import { chosenTheme, showTheme } from './frame/theme.ts';
import './look/tokens.css';
import './look/base.css';
import './look/parts.css';
import './look/chart.css';
import './look/frame.css';

const queries = new QueryClient({
  defaultOptions: {
    queries: {
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
