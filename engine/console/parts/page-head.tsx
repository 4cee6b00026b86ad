import type { ReactNode } from 'react';

/** The title of a page, a sentence on what it is for, and what can be done on it. */
export function PageHead({ title, intro, children }: { title: string; intro?: ReactNode; children?: ReactNode }) {
  return (
    <header className="page-head">
      <div>
        <h1>{title}</h1>
        {intro !== undefined && <p className="soft">{intro}</p>}
      </div>
      {children !== undefined && <div className="page-actions">{children}</div>}
    </header>
  );
}

/** A part of a page with a title of its own. */
export function Card({ title, children, actions }: { title?: string; children: ReactNode; actions?: ReactNode }) {
  return (
    <section className="card">
      {title !== undefined && (
        <header className="card-head">
          <h2>{title}</h2>
          {actions}
        </header>
      )}
      {children}
    </section>
  );
}
