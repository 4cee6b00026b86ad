import { useQueryClient } from '@tanstack/react-query';
import { type ErrorComponentProps, Link, Outlet, useLocation } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { type ConsoleSession, type ProblemError, signInAddress, signOut, useSession } from './api.ts';
import { PAGES, preloadPages } from './pages/list.ts';
import { Button, CopyBlock, Icon, useNotify } from './parts/basic.tsx';
import { Field } from './parts/field.tsx';
import { TimeText } from './parts/words.tsx';

const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

const KEY = 'console-theme';

/** Theme chosen in this browser. */
export function chosenTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find((theme) => theme === kept) ?? 'auto';
  } catch {
    return 'auto';
  }
}

function chooseTheme(theme: Theme): void {
  showTheme(theme);
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Without storage, it lasts until the page is closed.
  }
}

/** Applies a theme. */
export function showTheme(theme: Theme): void {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** Connection status; refetches everything once the gateway is reachable again. */
export function ConnectionLine({ failing, answered_at }: { failing: ProblemError | null; answered_at: number }) {
  const client = useQueryClient();
  const was_failing = useRef(false);
  useEffect(() => {
    if (failing !== null) was_failing.current = true;
    else if (was_failing.current) {
      was_failing.current = false;
      client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' });
    }
  }, [failing, client]);
  return (
    <div role="status" className="connection">
      {failing !== null && (
        <p>
          Connection lost: {failing.message} The data is from <TimeText at={new Date(answered_at).toISOString()} />.
          Retrying every 3 seconds.
        </p>
      )}
    </div>
  );
}

/** Page for an unknown URL. */
export function NotFound() {
  return (
    <section>
      <h1>Page not found</h1>
      <p>
        The URL may be mistyped, or belong to another version. Go to <Link to="/">Home</Link>.
      </p>
    </section>
  );
}

/** Error page; after an upgrade of the gateway, scripts have other names and a reload helps. */
export function PageFailed({ error }: ErrorComponentProps) {
  return (
    <section role="alert">
      <h1>This page failed</h1>
      <p>
        Reload it: the gateway may have been upgraded. If it fails again, send this error to your administrator:{' '}
        <code>{error instanceof Error ? error.message : String(error)}</code>
      </p>
      <Button kind="primary" onClick={() => window.location.reload()}>
        Reload
      </Button>
    </section>
  );
}

/** Sign-in page. */
export function SignInPage({ session }: { session: ConsoleSession }) {
  const here = window.location.pathname + window.location.search;
  return (
    <main className="lone stack">
      <h1>{session.name}</h1>
      {session.signed_out_because !== null && <p role="status">{session.signed_out_because}</p>}
      {session.notice !== null && <p className="boxed small">{session.notice}</p>}
      {session.sign_in === 'provider' ? (
        <>
          <p>Sign in with your company account to see your usage, limits and tokens.</p>
          <a className="button primary" href={signInAddress(session, here)}>
            Sign in
          </a>
        </>
      ) : (
        <>
          <p>
            This gateway has no identity provider. Open the console with a one-time link, valid for one minute. On the
            gateway host, run:
          </p>
          <CopyBlock text="appscli console" label="Command that prints the link" />
        </>
      )}
    </main>
  );
}

/** Layout of every page: navigation and account. */
export function Frame() {
  const session = useSession();
  const { pathname } = useLocation();
  const [is_open, setOpen] = useState(false);
  const menu = useRef<HTMLDialogElement>(null);
  const main = useRef<HTMLElement>(null);
  const seen = useRef(pathname);
  useEffect(() => {
    menu.current?.close();
    // Screen readers announce the new page.
    if (seen.current !== pathname) main.current?.focus();
    seen.current = pathname;
  }, [pathname]);
  useEffect(preloadPages, []);
  const openMenu = () => {
    setOpen(true);
    menu.current?.showModal();
  };
  return (
    <div className="frame">
      <button type="button" className="skip" onClick={() => main.current?.focus()}>
        Skip to the page
      </button>
      <header className="frame-top">
        <Button kind="quiet" aria-label="Pages" aria-haspopup="dialog" onClick={openMenu}>
          <Icon name="menu" />
        </Button>
        {/* A native dialog: a library would add a third to the size of the first page. */}
        <dialog
          ref={menu}
          className="side-sheet"
          aria-label="Pages"
          closedby="any"
          onClose={() => setOpen(menu.current?.open === true)}
        >
          {is_open && (
            <div className="side-sheet-body">
              <div className="row spread">
                <SideTitle />
                <Button kind="quiet" aria-label="Close" onClick={() => menu.current?.close()}>
                  <Icon name="close" />
                </Button>
              </div>
              <PageList />
              <Account />
            </div>
          )}
        </dialog>
        <strong>{session.name}</strong>
      </header>
      <aside className="frame-side">
        <SideTitle />
        <PageList />
        <Account />
      </aside>
      <main id="main" ref={main} tabIndex={-1} className="frame-main">
        {session.notice !== null && <p className="boxed small">{session.notice}</p>}
        <Outlet />
      </main>
    </div>
  );
}

function SideTitle() {
  const { name } = useSession();
  return (
    <p className="side-title row">
      <Icon name="gateway" />
      <span>{name}</span>
    </p>
  );
}

function PageList() {
  const { is_admin } = useSession().person;
  return (
    <nav aria-label="Pages">
      <ul className="page-list bare">
        {PAGES.filter(({ for_admins }) => is_admin || !for_admins).map(({ path, title, icon }) => (
          <li key={path}>
            <Link to={path} activeOptions={{ exact: path === '/', includeSearch: false }} className="page-link row">
              <Icon name={icon} />
              {title}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Account() {
  const { person, version } = useSession();
  const notify = useNotify();
  const leave = async () => {
    try {
      window.location.assign(safeLocation(await signOut()));
    } catch (error) {
      notify(error instanceof Error ? error.message : String(error), 'alarm');
    }
  };
  return (
    <div className="account stack top">
      <p className="small">
        <strong className="line any">{person.email}</strong>
        <span className="soft">{person.is_admin ? 'Administrator' : 'Developer'}</span>
      </p>
      <ThemeChoice />
      <Button kind="secondary" onClick={leave}>
        Sign out
      </Button>
      <p className="soft small">Version {version}</p>
    </div>
  );
}

function ThemeChoice() {
  const [theme, setTheme] = useState<string>(chosenTheme);
  const choose = (name: string) => {
    setTheme(name);
    chooseTheme(name as Theme);
  };
  return <Field label="Colours" options={THEMES} value={theme} onValue={choose} />;
}

/** Accepts only http(s) URLs for the redirect after sign-out. */
function safeLocation(location: string): string {
  const url = new URL(location, window.location.href);
  return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : '/';
}
