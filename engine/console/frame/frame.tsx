import { Link, Outlet, useLocation } from '@tanstack/react-router';
import { useEffect, useId, useRef, useState } from 'react';
import { signOut } from '../api/session.ts';
import { PAGES, preloadPages } from '../pages/list.ts';
import { Button } from '../parts/button.tsx';
import { Icon } from '../parts/icon.tsx';
import { useTell } from '../parts/tell.tsx';
import { useSession } from './session-context.ts';
import { chooseTheme, chosenTheme, THEMES, type Theme } from './theme.ts';

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
        {session.notice !== null && <p className="notice-line">{session.notice}</p>}
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
      <ul className="page-list">
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
  const tell = useTell();
  const leave = async () => {
    try {
      window.location.assign(safeLocation(await signOut()));
    } catch (error) {
      tell(error instanceof Error ? error.message : String(error), 'alarm');
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
  const [theme, setTheme] = useState<Theme>(chosenTheme);
  const name = useId();
  return (
    <fieldset className="theme-choice">
      <legend className="unseen">Colours</legend>
      {THEMES.map((each) => (
        <label key={each}>
          <input
            type="radio"
            name={name}
            value={each}
            checked={theme === each}
            onChange={() => {
              setTheme(each);
              chooseTheme(each);
            }}
          />
          <span>{each}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** A way out leads to a page, whatever else the answer may have been made to say. */
function safeLocation(location: string): string {
  const url = new URL(location, window.location.href);
  return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : '/';
}
