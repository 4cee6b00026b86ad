import { useQueryClient } from '@tanstack/react-query';
import { type ErrorComponentProps, Link, Outlet, useLocation } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { type ConsoleSession, type ProblemError, signInAddress, signOut, useSession } from './api.ts';
import { PAGES, preloadPages } from './pages/list.ts';
import { Button, Choice, CopyBlock, Icon, TimeText, useNotify } from './parts/basic.tsx';

/** The themes a person may choose; `auto` follows the system. */
const THEMES = { auto: 'auto', light: 'light', dark: 'dark' } as const;
type Theme = keyof typeof THEMES;

const KEY = 'console-theme';

/** The theme chosen in this browser. */
export function chosenTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept !== null && Object.hasOwn(THEMES, kept) ? (kept as Theme) : 'auto';
  } catch {
    // A browser that keeps nothing follows its system.
    return 'auto';
  }
}

/** Shows a theme from now on, and after the next start of this browser. */
function chooseTheme(theme: Theme): void {
  showTheme(theme);
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Then it holds until the page is closed.
  }
}

/** Shows a theme. */
export function showTheme(theme: Theme): void {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** Says that the gateway is away while it is; everything is asked for again as soon as it is back. */
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
          The gateway does not answer: {failing.message} Its last answer was at{' '}
          <TimeText at={new Date(answered_at).toISOString()} />, and what is shown is from before. Trying again every
          three seconds.
        </p>
      )}
    </div>
  );
}

/** What is shown at an address that is no page. */
export function NotFound() {
  return (
    <section>
      <h1>There is no such page</h1>
      <p>
        The address may be mistyped, or of another version. <Link to="/">Home</Link> lists what there is.
      </p>
    </section>
  );
}

/** What is shown where a page broke: after an upgrade of the gateway its scripts have other names, and loading again mends it. */
export function PageFailed({ error }: ErrorComponentProps) {
  return (
    <section role="alert">
      <h1>This page did not work</h1>
      <p>
        Load it again: that mends it after the gateway was upgraded. If it happens again, tell whoever runs the gateway
        what stands here: <code>{error instanceof Error ? error.message : String(error)}</code>
      </p>
      <Button kind="primary" onClick={() => window.location.reload()}>
        Load again
      </Button>
    </section>
  );
}

/** What somebody without a session sees: how to sign in here. */
export function SignInPage({ session }: { session: ConsoleSession }) {
  const here = window.location.pathname + window.location.search;
  return (
    <main className="lone stack">
      <h1>{session.name}</h1>
      {session.signed_out_because !== null && <p role="status">{session.signed_out_because}</p>}
      {session.notice !== null && <p className="boxed small">{session.notice}</p>}
      {session.sign_in === 'provider' ? (
        <>
          <p>Sign in with the account you have at work to see your usage, limits and tokens.</p>
          <a className="button primary" href={signInAddress(session, here)}>
            Sign in
          </a>
        </>
      ) : (
        <>
          <p>
            This gateway has no identity provider. Whoever runs it opens the console with a link that works once, for
            one minute. On the machine of the gateway:
          </p>
          <CopyBlock text="appscli console" label="Command that prints the link" />
        </>
      )}
    </main>
  );
}

/** What is around every page: the list of pages, who is signed in, and the way out. */
export function Frame() {
  const session = useSession();
  const { pathname } = useLocation();
  const [is_open, setOpen] = useState(false);
  const menu = useRef<HTMLDialogElement>(null);
  const main = useRef<HTMLElement>(null);
  const seen = useRef(pathname);
  useEffect(() => {
    menu.current?.close();
    // Somebody who does not see the page hears that it is another one.
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
        {/* The browser's own dialog: a library for it would be a third of the first page again. */}
        <dialog
          ref={menu}
          className="side-sheet"
          aria-label="Pages"
          closedby="any"
          onClose={() => setOpen(menu.current?.open === true)}
        >
          {is_open && (
            <div className="side-sheet-body">
              <div className="side-head">
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
        <span className="frame-name">{session.name}</span>
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
    <p className="side-title">
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
            <Link to={path} activeOptions={{ exact: path === '/', includeSearch: false }} className="page-link">
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
    <div className="account">
      <p className="account-who">
        <span className="account-email">{person.email}</span>
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
  return <Choice label="Colours" className="theme-choice" options={THEMES} value={theme} onValue={choose} />;
}

/** A way out leads to a page, whatever else the answer may have been made to say. */
function safeLocation(location: string): string {
  const url = new URL(location, window.location.href);
  return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : '/';
}
