import { type AnswerOf, addressOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Icon } from '../../parts/icon.tsx';
import { Card, PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Controls } from './controls.tsx';
import { UsageChart } from './over-time.tsx';
import { dimensionsOf, filtersOf } from './question.ts';
import { momentWords, periodOf, stepOf } from './range.ts';
import { Summary } from './summary.tsx';
import { UsageTable } from './usage-table.tsx';
import './usage.css';

/** As many rows as one looks at; the others are summed up. */
const ROWS = 50;
const ALL_ROWS = 1000;

/** What requests used and cost, by up to four dimensions, beside the period before. */
export function Page() {
  const [search] = usePageSearch();
  const { time_zone, person } = useSession();
  const by = dimensionsOf(search, person.is_admin ? 'user' : 'model');
  const filters = filtersOf(search);
  const period = periodOf(search, time_zone);
  const compare = period.since === undefined ? {} : ({ compare: 'previous' } as const);
  const question = { ...period, ...filters, by: by.join(',') };
  const limit = search.rows === 'all' ? ALL_ROWS : ROWS;
  const usage = useOperation('getUsage', { ...question, ...compare, limit });
  return (
    <>
      <PageHead
        title="Usage"
        intro={`${person.is_admin ? 'What requests used and cost' : 'What your requests used and cost'}, from the ledger. Days begin at midnight, ${time_zone}.`}
      >
        <a className="button secondary" href={addressOf('exportUsage', question)} download="usage.csv">
          <Icon name="down" />
          Download CSV
        </a>
      </PageHead>
      <Controls by={by} filters={filters} is_admin={person.is_admin} />
      <Loaded query={usage} lines={8}>
        {(answer) => <Answered usage={answer} question={question} time_zone={time_zone} />}
      </Loaded>
    </>
  );
}

type Usage = AnswerOf<'getUsage'>;

function Answered({ usage, question, time_zone }: { usage: Usage; question: object; time_zone: string }) {
  if (usage.total.requests === 0 && usage.total.cost_usd === 0 && usage.rows.length === 0) {
    return (
      <Card>
        <EmptyState title="No requests in this time">
          <p>Choose a longer time or take a filter away. Requests appear here as soon as they are over.</p>
        </EmptyState>
      </Card>
    );
  }
  return (
    <div className="usage-answer">
      <p className="soft small">
        {words(usage, time_zone)}
        {usage.previous !== null && `, compared with ${words(usage.previous, time_zone)}`}
      </p>
      <Summary usage={usage} />
      <UsageChart
        question={question}
        first={usage.by[0]!}
        step={stepOf(usage.since, usage.until)}
        since={usage.since}
      />
      <UsageTable usage={usage} />
    </div>
  );
}

function words({ since, until }: { readonly since: string | null; readonly until: string }, time_zone: string): string {
  if (since === null) return `everything up to ${momentWords(until, time_zone)}`;
  return `${momentWords(since, time_zone)} to ${momentWords(until, time_zone, since)}`;
}
