import './requests.css';
import { useInfiniteQuery } from '@tanstack/react-query';
import { type AnswerOf, addressOf, call, type ProblemError } from '../../api/client.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { Files } from '../../parts/files.tsx';
import { Icon } from '../../parts/icon.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, ProblemBox, Skeleton } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { FilterBar } from './filter-bar.tsx';
import { filtersOf, type RequestFilters } from './filters.ts';
import { RequestDrawer } from './request-drawer.tsx';
import { RequestTable } from './request-table.tsx';
import { type LiveState, type RequestRow, useLive } from './use-live.ts';

const PAGE_ROWS = 50;

/** Which requests there were, and why each ended as it did. */
export function Page() {
  const { person, time_zone } = useSession();
  const [search, change] = usePageSearch();
  const filters = filtersOf(search);
  const is_live = search.live === 'yes';
  const live = useLive(filters, is_live);
  const open = (request: string | undefined) => change({ request });
  const wanted = { ...filters, ...(filters.since || filters.until ? { time_zone } : {}) };
  return (
    <>
      <PageHead
        title="Requests"
        intro={`${person.is_admin ? 'Every request' : 'Your requests'}, and why each was served, refused or priced as it was. Times are ${time_zone}.`}
      >
        <Button aria-pressed={is_live} onClick={() => change({ live: is_live ? undefined : 'yes' })}>
          <Icon name={is_live ? 'pause' : 'play'} />
          {is_live ? 'Stop live view' : 'Watch live'}
        </Button>
        <Files lines={addressOf('exportRequests', wanted)} csv={addressOf('exportRequestsCsv', wanted)} />
      </PageHead>
      <FilterBar search={search} change={change} />
      {is_live && <LiveNote state={live.state} count={live.rows.length} />}
      <List
        {...{ filters, open_id: search.request, live_rows: live.rows, is_admin: person.is_admin }}
        time_zone={time_zone}
        onOpen={open}
      />
      {search.request !== undefined && <RequestDrawer id={search.request} onClose={() => open(undefined)} />}
    </>
  );
}

const LIVE_WORDS: Readonly<Record<LiveState, string>> = {
  off: '',
  opening: 'Live view begins.',
  live: 'Live: new requests appear at the top.',
  mending: 'The connection was lost; it is being mended, and what was missed comes then.',
  ended: 'The live view has ended: your session is over, or too many are open. Stop it and begin again.',
};

function LiveNote({ state, count }: { state: LiveState; count: number }) {
  return (
    <p className={`requests-live ${state}`} role="status">
      <span className="requests-live-mark" aria-hidden="true" />
      {LIVE_WORDS[state]}
      {count > 0 && ` ${count} so far.`}
    </p>
  );
}

interface Listing {
  readonly filters: RequestFilters;
  readonly time_zone: string;
  readonly open_id: string | undefined;
  readonly live_rows: readonly RequestRow[];
  readonly is_admin: boolean;
  readonly onOpen: (id: string) => void;
}

function List({ filters, time_zone, open_id, live_rows, is_admin, onOpen }: Listing) {
  const input = { ...filters, ...(filters.since || filters.until ? { time_zone } : {}), limit: PAGE_ROWS };
  const query = useInfiniteQuery<AnswerOf<'listRequests'>, ProblemError>({
    queryKey: ['listRequests', input],
    queryFn: ({ pageParam, signal }) =>
      call('listRequests', { ...input, ...(typeof pageParam === 'string' && { after: pageParam }) }, signal),
    initialPageParam: undefined,
    getNextPageParam: ({ next }) => next,
  });
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = query;
  const retry = () => void (hasNextPage && data !== undefined ? fetchNextPage() : refetch());
  if (data === undefined) {
    return error === null ? (
      <Skeleton lines={12} label="Requests are loading" />
    ) : (
      <ProblemBox problem={error} onRetry={retry} />
    );
  }
  const listed = data.pages.flatMap(({ requests }) => requests);
  const known = new Set(listed.map(({ id }) => id));
  const rows = [...live_rows.filter(({ id }) => !known.has(id)), ...listed];
  const searched_to = data.pages.at(-1)?.searched_to ?? null;
  return (
    <>
      {rows.length === 0 && !hasNextPage && <Nothing is_filtered={Object.keys(filters).length > 0} />}
      {rows.length > 0 && <RequestTable label="Requests, the newest first" {...{ rows, is_admin, open_id, onOpen }} />}
      {error !== null && <ProblemBox problem={error} onRetry={retry} />}
      {hasNextPage && (
        <div className="requests-more">
          <Button is_busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            {data.pages.at(-1)!.requests.length < PAGE_ROWS ? 'Search further back' : 'Show older requests'}
          </Button>
          {searched_to !== null && (
            <span className="soft small">
              Looked back to <TimeText at={searched_to} form="long" />.
            </span>
          )}
        </div>
      )}
    </>
  );
}

function Nothing({ is_filtered }: { is_filtered: boolean }) {
  if (is_filtered) {
    return <EmptyState title="No request is like this.">Take a filter away, or look at a longer time.</EmptyState>;
  }
  return (
    <EmptyState title="There are no requests yet.">
      Set up a client with an access token; its first request appears here within a second.
    </EmptyState>
  );
}
