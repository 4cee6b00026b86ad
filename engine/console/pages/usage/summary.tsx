import type { AnswerOf } from '../../api/client.ts';
import { Count, Share, ShortCount, Usd } from '../../parts/numbers.tsx';

type Usage = AnswerOf<'getUsage'>;
type Sums = Usage['total'];

/** The total of a period in figures, each beside that of the period before. */
export function Summary({ usage: { total, previous } }: { usage: Usage }) {
  const before = previous?.total;
  const cached = total.cache_read_tokens + total.cache_write_5m_tokens + total.cache_write_1h_tokens;
  const possible = total.possibly_billed_usd ?? 0;
  return (
    <dl className="usage-figures">
      <Figure title="Cost" change={<Change now={total.cost_usd} before={before?.cost_usd} />}>
        <Usd amount={total.cost_usd} />
      </Figure>
      <Figure title="Requests" change={<Change now={total.requests} before={before?.requests} />}>
        <Count of={total.requests} />
      </Figure>
      <Figure title="Tokens in" change={<Change now={tokensIn(total)} before={before && tokensIn(before)} />}>
        <ShortCount of={tokensIn(total)} />
      </Figure>
      <Figure title="Tokens out" change={<Change now={total.output_tokens} before={before?.output_tokens} />}>
        <ShortCount of={total.output_tokens} />
      </Figure>
      <Figure
        title="Read from the cache"
        change={<span className="soft">{cached === 0 ? 'no caching' : 'of the tokens in'}</span>}
      >
        {total.cache_hit_ratio === null ? '–' : <Share of={total.cache_hit_ratio} />}
      </Figure>
      <Figure
        title="Estimated"
        change={
          <span className="soft">
            {possible > 0 ? (
              <>
                failures may add <Usd amount={possible} />
              </>
            ) : (
              'of the cost'
            )}
          </span>
        }
      >
        {total.cost_usd === 0 ? '–' : <Share of={total.estimated_usd / total.cost_usd} />}
      </Figure>
    </dl>
  );
}

function tokensIn(sums: Sums): number {
  return sums.input_tokens + sums.cache_read_tokens + sums.cache_write_5m_tokens + sums.cache_write_1h_tokens;
}

function Figure({ title, change, children }: { title: string; change: React.ReactNode; children: React.ReactNode }) {
  return (
    <div className="usage-figure">
      <dt>{title}</dt>
      <dd>
        <span className="figure">{children}</span>
        <span className="small">{change}</span>
      </dd>
    </div>
  );
}

/** How much more or less than before; nothing where there is no before. */
export function Change({ now, before }: { now: number; before: number | undefined }) {
  if (before === undefined) return null;
  if (before === 0) return <span className="soft">{now === 0 ? 'nothing before, too' : 'nothing before'}</span>;
  const share = (now - before) / Math.abs(before);
  const words = `${share > 0 ? '+' : share < 0 ? '−' : '±'}${formatShare(Math.abs(share))}`;
  return (
    <span className="number soft" title="Compared with the period before">
      {words}
    </span>
  );
}

/** A change in percent, in words from ten times on. */
export function formatShare(share: number): string {
  return share >= 10 ? `${Math.round(share)}×` : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}%`;
}
