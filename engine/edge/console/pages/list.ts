import type { ComponentType } from 'react';
import type { IconName } from '../parts/basic.tsx';

interface PageEntry {
  readonly path: string;
  readonly title: string;
  readonly icon: IconName;
  readonly for_admins?: true;
  readonly load: () => Promise<{ readonly Page: ComponentType }>;
}

const mySessions = () => import('./people.tsx').then(({ MySessions }) => ({ Page: MySessions }));

/** All pages, in the order of the navigation. A new page is a file here and an entry in this list. */
export const PAGES: readonly PageEntry[] = [
  { path: '/', title: 'Home', icon: 'home', load: () => import('./home.tsx') },
  { path: '/requests', title: 'Requests', icon: 'requests', load: () => import('./requests.tsx') },
  { path: '/usage', title: 'Usage', icon: 'usage', load: () => import('./usage.tsx') },
  { path: '/limits', title: 'Limits', icon: 'limits', load: () => import('./limits.tsx') },
  { path: '/tokens', title: 'Tokens', icon: 'tokens', load: () => import('./tokens.tsx') },
  {
    path: '/upstreams',
    title: 'Upstreams',
    icon: 'upstreams',
    for_admins: true,
    load: () => import('./upstreams.tsx'),
  },
  { path: '/config', title: 'Configuration', icon: 'config', for_admins: true, load: () => import('./config.tsx') },
  { path: '/policies', title: 'Policies', icon: 'policies', load: () => import('./policies.tsx') },
  { path: '/people', title: 'People', icon: 'people', for_admins: true, load: () => import('./people.tsx') },
  { path: '/audit', title: 'Audit', icon: 'audit', for_admins: true, load: () => import('./audit.tsx') },
  { path: '/sessions', title: 'My sessions', icon: 'sessions', load: mySessions },
];

/** Preloads all pages when the browser is idle, so that they work while the gateway is unreachable. */
export function preloadPages(): void {
  const whenIdle = window.requestIdleCallback ?? ((run: () => void) => setTimeout(run, 2000));
  whenIdle(() => {
    for (const { load } of PAGES) load().catch(() => {});
  });
}
