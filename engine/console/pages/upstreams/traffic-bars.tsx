import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { shortTime } from '../../parts/times.tsx';
import type { Traffic } from './words.ts';

const HEIGHT = 48;
const WIDTH = 10;
const GAP = 2;

interface Bars {
  readonly name: string;
  readonly parts: Traffic['parts'];
  readonly since: string;
  readonly part_seconds: number;
  readonly time_zone: string;
}

/** Attempts over time, with those that failed or were limited at the foot; the same as a table on demand. */
export function TrafficBars({ name, parts, since, part_seconds, time_zone }: Bars) {
  const [as_table, show] = useState(false);
  const most = Math.max(1, ...parts.map(({ attempts }) => attempts));
  const timeOf = (part: number) => new Date(Date.parse(since) + part * part_seconds * 1000);
  const bars = parts.map((part, n) => ({ ...part, at: timeOf(n) }));
  const sum = (key: 'attempts' | 'failed' | 'limited') => parts.reduce((all, part) => all + part[key], 0);
  const words = `${name}: ${sum('attempts')} attempts, ${sum('failed')} failed, ${sum('limited')} limited`;
  return (
    <div className="upstream-bars">
      {as_table ? (
        <PartsTable bars={bars} name={name} time_zone={time_zone} />
      ) : (
        <svg viewBox={`0 0 ${parts.length * WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={words}>
          {bars.map(({ at, attempts, failed, limited }, n) => (
            <g key={at.getTime()} transform={`translate(${n * WIDTH} 0)`}>
              <title>{`${shortTime(at, time_zone)}: ${attempts} attempts, ${failed} failed, ${limited} limited`}</title>
              <Bar className="upstream-bar-all" from={0} to={attempts / most} />
              <Bar className="upstream-bar-limited" from={failed / most} to={(failed + limited) / most} />
              <Bar className="upstream-bar-failed" from={0} to={failed / most} />
            </g>
          ))}
        </svg>
      )}
      <p className="small soft">
        Attempts from {shortTime(timeOf(0), time_zone)} to {shortTime(timeOf(parts.length), time_zone)}, {time_zone}
      </p>
      <div className="upstream-bars-foot small soft">
        {!as_table && (
          <span className="upstream-legend">
            <span className="upstream-key all" /> all
            <span className="upstream-key limited" /> limited
            <span className="upstream-key failed" /> failed
          </span>
        )}
        <Button kind="quiet" className="small" onClick={() => show(!as_table)}>
          {as_table ? 'Show as bars' : 'Show as table'}
        </Button>
      </div>
    </div>
  );
}

function Bar({ className, from, to }: { className: string; from: number; to: number }) {
  if (to <= from) return null;
  // Few of many can still be seen.
  const height = Math.max((to - from) * HEIGHT, 1.5);
  return (
    <rect className={className} x={GAP / 2} width={WIDTH - GAP} y={HEIGHT - from * HEIGHT - height} height={height} />
  );
}

type Dated = Traffic['parts'][number] & { readonly at: Date };

function PartsTable({ bars, name, time_zone }: { bars: readonly Dated[]; name: string; time_zone: string }) {
  return (
    <div className="upstream-parts" role="region" aria-label={`Attempts at ${name}`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col" className="number">
              Attempts
            </th>
            <th scope="col" className="number">
              Failed
            </th>
            <th scope="col" className="number">
              Limited
            </th>
          </tr>
        </thead>
        <tbody>
          {bars.map(({ at, attempts, failed, limited }) => (
            <tr key={at.getTime()}>
              <td>{shortTime(at, time_zone)}</td>
              <td className="number">{attempts}</td>
              <td className="number">{failed}</td>
              <td className="number">{limited}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
