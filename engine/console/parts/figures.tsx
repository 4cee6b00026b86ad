import type { ReactNode } from 'react';

/** A row of figures. */
export function Figures({ children }: { children: ReactNode }) {
  return <dl className="figures">{children}</dl>;
}

/** One number that stands out, with what it is and what is worth knowing of it. */
export function Figure({ title, below, children }: { title: ReactNode; below?: ReactNode; children: ReactNode }) {
  return (
    <div className="figure-card">
      <dt>{title}</dt>
      <dd>
        <span className="figure">{children}</span>
        <span className="small">{below}</span>
      </dd>
    </div>
  );
}

/** How much more or less it is than before, as a share of that; nothing where that is not known. */
export function Trend({ now, before, than = 'before' }: { now: number; before: number | undefined; than?: string }) {
  if (before === undefined) return null;
  if (before === 0) return <span className="soft">{`nothing ${than}`}</span>;
  return <span className="number soft">{`${trendWords(now, before)} vs. ${than}`}</span>;
}

/** A change as people say it: `+12%`, `−3.4%`, `+15×`. */
export function trendWords(now: number, before: number): string {
  const share = (now - before) / Math.abs(before);
  const sign = share > 0 ? '+' : share < 0 ? '−' : '±';
  const size = Math.abs(share);
  return `${sign}${size >= 10 ? `${Math.round(size)}×` : `${(size * 100).toFixed(size < 0.1 ? 1 : 0)}%`}`;
}
