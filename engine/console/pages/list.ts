import type { ComponentType } from 'react';
import type { IconName } from '../parts/icon.tsx';

interface PageEntry {
  /** Below the console's own path. */
  readonly path: string;
  readonly title: string;
  readonly icon: IconName;
  readonly for_admins: boolean;
  readonly load: () => Promise<{ readonly Page: ComponentType }>;
}

/** All pages, in the order of the list beside them. A new page is a folder here and an entry in this list. */
export const PAGES: readonly PageEntry[] = [
  { path: '/', title: 'Home', icon: 'home', for_admins: false, load: () => import('./home/page.tsx') },
  {
    path: '/requests',
    title: 'Requests',
    icon: 'requests',
    for_admins: false,
    load: () => import('./requests/page.tsx'),
  },
  { path: '/usage', title: 'Usage', icon: 'usage', for_admins: false, load: () => import('./usage/page.tsx') },
  { path: '/limits', title: 'Limits', icon: 'limits', for_admins: false, load: () => import('./limits/page.tsx') },
  { path: '/tokens', title: 'Tokens', icon: 'tokens', for_admins: false, load: () => import('./tokens/page.tsx') },
  {
    path: '/upstreams',
    title: 'Upstreams',
    icon: 'upstreams',
    for_admins: true,
    load: () => import('./upstreams/page.tsx'),
  },
  {
    path: '/config',
    title: 'Configuration',
    icon: 'config',
    for_admins: true,
    load: () => import('./config/page.tsx'),
  },
  {
    path: '/policies',
    title: 'Policies',
    icon: 'policies',
    for_admins: false,
    load: () => import('./policies/page.tsx'),
  },
  { path: '/people', title: 'People', icon: 'people', for_admins: true, load: () => import('./people/page.tsx') },
  { path: '/audit', title: 'Audit', icon: 'audit', for_admins: true, load: () => import('./audit/page.tsx') },
  {
    path: '/sessions',
    title: 'My sessions',
    icon: 'sessions',
    for_admins: false,
    load: () => import('./sessions/page.tsx'),
  },
];

/** Gets all pages before they are asked for, once there is nothing else to do: they are there when the gateway is away. */
export function preloadPages(): void {
  const whenIdle = window.requestIdleCallback ?? ((run: () => void) => setTimeout(run, 2000));
  whenIdle(() => {
    for (const { load } of PAGES) load().catch(() => {});
  });
}
