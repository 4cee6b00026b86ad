import { Link } from '@tanstack/react-router';
import { type AnswerOf, addressOf, type InputOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { Files } from '../../parts/files.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { Turn } from '../../parts/turn.tsx';
import { beginningOf } from './days.ts';
import { Filters } from './filters.tsx';

type Refusal = AnswerOf<'listRefusedSignIns'>['refused_sign_ins'][number];

const PAGE = 50;
const NAMES = ['since', 'until', 'user'];

const COLUMNS: readonly Column<Refusal>[] = [
  { id: 'at', title: 'When', cell: ({ at }) => <TimeText at={at} /> },
  { id: 'who', title: 'Who', cell: ({ email, subject }) => email || subject || 'not told' },
  { id: 'why', title: 'Why', cell: ({ detail }) => <span className="audit-words">{detail}</span> },
  { id: 'client', title: 'Program', cell: ({ client }) => client },
];

/** Who was turned away at sign-in, one of them open beside the list. */
export function Refusals() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const { since, until, user, before, open } = search;
  const wanted: InputOf<'exportRefusedSignIns'> = {
    since: beginningOf(since, time_zone),
    until: beginningOf(until, time_zone, 1),
    user,
  };
  const page = before !== undefined && /^\d{1,15}$/.test(before) ? Number(before) : undefined;
  const found = useOperation('listRefusedSignIns', { ...wanted, before: page, limit: PAGE });
  const shown = found.data?.refused_sign_ins.find(({ id }) => String(id) === open);
  const files = (
    <Files lines={addressOf('exportRefusedSignIns', wanted)} csv={addressOf('exportRefusedSignInsCsv', wanted)} />
  );
  return (
    <Card title="Refused sign-ins" actions={files}>
      <p className="soft small">Kept for 14 days, the last ten of each address.</p>
      <Filters label="Narrow the refused sign-ins" names={NAMES}>
        <TextField label="Who" name="user" type="email" maxLength={254} defaultValue={user} />
      </Filters>
      <Loaded query={found} lines={6}>
        {({ refused_sign_ins, next }) => (
          <>
            {refused_sign_ins.length === 0 ? (
              <EmptyState title="Nobody was turned away.">
                Who is in none of the groups that are let in, or whose account is not the one of the address, is written
                down here with the reason.
              </EmptyState>
            ) : (
              <DataTable
                label="Refused sign-ins"
                columns={COLUMNS}
                rows={refused_sign_ins}
                keyOf={({ id }) => String(id)}
                onOpen={({ id }) => change({ open: String(id) })}
                isOpen={({ id }) => String(id) === open}
              />
            )}
            <Turn name="before" next={next} />
          </>
        )}
      </Loaded>
      {shown !== undefined && <RefusalDrawer refusal={shown} onClose={() => change({ open: undefined })} />}
    </Card>
  );
}

function RefusalDrawer({ refusal, onClose }: { refusal: Refusal; onClose: () => void }) {
  const { at, email, subject, issuer, client, client_address, request_id, detail, groups, expected } = refusal;
  const facts: readonly (readonly [string, string | null])[] = [
    ['Groups that came', groups.join(', ') || 'none'],
    ['Groups let in', expected.join(', ')],
    ['Account', subject],
    ['Identity provider', issuer],
    ['Program', client],
    ['Address', client_address],
    ['Request', request_id],
  ];
  return (
    <Drawer is_open onClose={onClose} title={`Refused: ${email || subject || 'somebody'}`}>
      <p className="audit-sentence">{detail}</p>
      <dl className="audit-facts">
        <dt>When</dt>
        <dd>
          <TimeText at={at} form="long" />
        </dd>
        {facts
          .filter(([, value]) => value !== null && value !== '')
          .map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} value`}>{value}</dd>])}
      </dl>
      {email !== '' && (
        <Link to="/people" search={{ user: email } as never}>
          What is known of {email}
        </Link>
      )}
    </Drawer>
  );
}
