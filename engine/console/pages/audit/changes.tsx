import { addressOf, type InputOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { Files } from '../../parts/files.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { Turn } from '../../parts/turn.tsx';
import { ACTIONS, type Change } from './actions.ts';
import { ChangeDrawer } from './change-drawer.tsx';
import { beginningOf } from './days.ts';
import { Filters } from './filters.tsx';

type Wanted = InputOf<'exportChanges'>;

const PAGE = 50;
const NAMES = ['since', 'until', 'actor', 'action', 'subject'];

const COLUMNS: readonly Column<Change>[] = [
  { id: 'at', title: 'When', cell: ({ at }) => <TimeText at={at} /> },
  { id: 'words', title: 'What happened', cell: ({ words }) => <span className="audit-words">{words}</span> },
  { id: 'action', title: 'Action', cell: ({ action }) => <code className="audit-action">{action}</code> },
];

const OPTIONS = [
  { value: '', text: 'Everything' },
  ...Object.entries(ACTIONS).map(([value, text]) => ({ value, text })),
];

/** The list of changes, one of them open beside it. */
export function Changes() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const { since, until, actor, action, subject, before, open } = search;
  const wanted: Wanted = {
    since: beginningOf(since, time_zone),
    until: beginningOf(until, time_zone, 1),
    actor,
    action: action as Wanted['action'],
    subject,
  };
  const found = useOperation('listChanges', { ...wanted, before: numberIn(before), limit: PAGE });
  const shown = found.data?.changes.find(({ id }) => String(id) === open);
  const is_narrowed = NAMES.some((name) => search[name]);
  return (
    <Card
      title="Changes"
      actions={<Files lines={addressOf('exportChanges', wanted)} csv={addressOf('exportChangesCsv', wanted)} />}
    >
      <Filters label="Narrow the changes" names={NAMES}>
        <TextField label="By whom" name="actor" maxLength={254} defaultValue={actor} />
        <TextField label="To whom or what" name="subject" maxLength={254} defaultValue={subject} />
        <SelectField label="What" name="action" options={OPTIONS} defaultValue={action ?? ''} />
      </Filters>
      <Loaded query={found} lines={8}>
        {({ changes, next }) => (
          <>
            {changes.length === 0 ? (
              <EmptyState title={is_narrowed ? 'No change is like that.' : 'Nothing was changed yet.'}>
                {is_narrowed
                  ? 'Names are looked for as whole words; leave a field empty to find more.'
                  : 'Who makes a token, gives a grant or drains an upstream is written down here.'}
              </EmptyState>
            ) : (
              <DataTable
                label="Changes"
                columns={COLUMNS}
                rows={changes}
                keyOf={({ id }) => String(id)}
                onOpen={({ id }) => change({ open: String(id) })}
                isOpen={({ id }) => String(id) === open}
              />
            )}
            <Turn name="before" next={next} />
          </>
        )}
      </Loaded>
      {shown !== undefined && <ChangeDrawer change={shown} onClose={() => change({ open: undefined })} />}
    </Card>
  );
}

function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
