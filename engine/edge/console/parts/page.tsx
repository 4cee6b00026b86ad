import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { PageSearch } from '../api.ts';

/** A list of lines; `false` is omitted. */
export function Lines({ of, className = 'bare stack any' }: { of: readonly ReactNode[]; className?: string }) {
  const lines = of.filter((line) => line !== false);
  if (lines.length === 0) return null;
  return (
    <ul className={className}>
      {lines.map((line, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name.
        <li key={i}>{line}</li>
      ))}
    </ul>
  );
}

/** Key figures, side by side. */
export function Figures({ of }: { of: readonly Readonly<Record<'title' | 'figure' | 'below', ReactNode>>[] }) {
  return (
    <dl className="fitted figures">
      {of.map(({ title, figure, below }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes its order.
        <div key={i} className="figure-card">
          <dt>{title}</dt>
          <dd className="stack near">
            <span className="figure">{figure}</span>
            <span className="soft small">{below}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Page header: title, intro, actions. */
export function PageHead({ title, intro, children }: { title: string; intro?: ReactNode; children?: ReactNode }) {
  return (
    <header className="page-head row spread">
      <div>
        <h1>{title}</h1>
        {intro !== undefined && <p className="soft">{intro}</p>}
      </div>
      {children && <div className="row">{children}</div>}
    </header>
  );
}

/** A section of a page. */
export function Card({ title, children, actions }: { title?: string; children: ReactNode; actions?: ReactNode }) {
  return (
    <section className="card stack">
      {title !== undefined && (
        <header className="row spread">
          <h2>{title}</h2>
          {actions}
        </header>
      )}
      {children}
    </section>
  );
}

/** A section of a card or drawer. */
export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="stack top">
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** Names with values; empty values are omitted. */
export function Facts({ of, look = '' }: { of: Readonly<Record<string, ReactNode>>; look?: string }) {
  return (
    <dl className={`facts ${look}`}>
      {Object.entries(of)
        .filter(([, value]) => value !== null && value !== '' && value !== false && value !== undefined)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A link to a page of the console, with query parameters. */
export function To({
  page: [to, search = {}],
  ...rest
}: { readonly [Name in 'className' | 'title' | 'aria-label']?: string } & {
  readonly 'aria-current'?: true | undefined;
  readonly page: readonly [path: string, search?: object | undefined];
  readonly resetScroll?: boolean;
  readonly children: ReactNode;
}) {
  return <Link to={to as never} search={search as never} {...(rest as object)} />;
}

interface Tab {
  readonly text: string;
  readonly search: PageSearch;
  readonly is_shown: boolean;
}

/** Links between the lists or views of one page. */
export function Tabs({ label, path, tabs }: { label: string; path: string; tabs: readonly Tab[] }) {
  return (
    <nav className="tabs row" aria-label={label}>
      {tabs.map(({ text, search, is_shown }) => (
        <Link
          key={text}
          to={path as never}
          search={search as never}
          // Without `exact`, the router marks a tab as active if the URL has more parameters.
          activeOptions={{ exact: true }}
          {...(is_shown && { 'aria-current': 'page' })}
        >
          {text}
        </Link>
      ))}
    </nav>
  );
}

/** Empty state: a title and a hint. */
export function EmptyState({ title, children, is_card }: { title: string; children?: ReactNode; is_card?: boolean }) {
  return (
    <div className={is_card ? 'card empty' : 'empty'}>
      <p>
        <strong>{title}</strong>
      </p>
      {children !== undefined && <div className="soft">{children}</div>}
    </div>
  );
}
