import type { AnswerOf } from '../../api/client.ts';
import { Figure, Figures, Trend } from '../../parts/figures.tsx';
import { Count, Share, ShortCount, Usd } from '../../parts/numbers.tsx';

type Usage = AnswerOf<'getUsage'>;
type Sums = Usage['total'];

/** The total of a period in figures, each beside that of the period before. */
export function Summary({ usage: { total, previous } }: { usage: Usage }) {
  const before = previous?.total;
  const cached = total.cache_read_tokens + total.cache_write_5m_tokens + total.cache_write_1h_tokens;
  const possible = total.possibly_billed_usd ?? 0;
  return (
    <Figures>
      <Figure title="Cost" below={<Trend now={total.cost_usd} before={before?.cost_usd} />}>
        <Usd amount={total.cost_usd} />
      </Figure>
      <Figure title="Requests" below={<Trend now={total.requests} before={before?.requests} />}>
        <Count of={total.requests} />
      </Figure>
      <Figure title="Tokens in" below={<Trend now={tokensIn(total)} before={before && tokensIn(before)} />}>
        <ShortCount of={tokensIn(total)} />
      </Figure>
      <Figure title="Tokens out" below={<Trend now={total.output_tokens} before={before?.output_tokens} />}>
        <ShortCount of={total.output_tokens} />
      </Figure>
      <Figure
        title="Cache hits"
        below={<span className="soft">{cached === 0 ? 'no caching' : 'of the tokens in'}</span>}
      >
        {total.cache_hit_ratio === null ? '–' : <Share of={total.cache_hit_ratio} />}
      </Figure>
      <Figure
        title="Estimated"
        below={
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
    </Figures>
  );
}

function tokensIn(sums: Sums): number {
  return sums.input_tokens + sums.cache_read_tokens + sums.cache_write_5m_tokens + sums.cache_write_1h_tokens;
}
