import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { Groups } from './people-table.tsx';

type Refused = AnswerOf<'listRefusedSignIns'>['refused_sign_ins'][number];

const SHOWN = 20;

const COLUMNS: readonly Column<Refused>[] = [
  { id: 'at', title: 'When', cell: ({ at }) => <TimeText at={at} /> },
  { id: 'email', title: 'Who', cell: ({ email }) => email || <span className="soft">without an address</span> },
  { id: 'why', title: 'Why', cell: (refused) => <Why refused={refused} /> },
  { id: 'client', title: 'With', cell: ({ client }) => client || <span className="soft">not told</span> },
  { id: 'address', title: 'From', cell: ({ client_address }) => client_address },
];

/** Who was turned away lately, and why; of one person where one is named. */
export function RefusedSignIns({ user }: { user?: string }) {
  const refused = useOperation('listRefusedSignIns', { limit: SHOWN, ...(user !== undefined && { user }) });
  return (
    <Loaded query={refused} lines={2}>
      {({ refused_sign_ins }) =>
        refused_sign_ins.length === 0 ? (
          <p className="soft">No sign-in was refused in the last 14 days.</p>
        ) : (
          <DataTable
            label="Refused sign-ins"
            columns={user === undefined ? COLUMNS : COLUMNS.filter(({ id }) => id !== 'email')}
            rows={refused_sign_ins}
            keyOf={({ id }) => String(id)}
          />
        )
      }
    </Loaded>
  );
}

const REASONS: Readonly<Record<Refused['refused'], string>> = {
  email_missing: 'The identity provider told no e-mail address.',
  email_unverified: 'The identity provider has not verified the e-mail address.',
  email_domain: 'The address is at none of the allowed domains.',
  group: 'In none of the groups that are let in.',
  claims_unusable: 'What the identity provider told cannot be read.',
  too_many_groups: 'In more groups than the gateway can keep.',
  other_account: 'The address belongs to another account.',
  other_provider: 'The address belongs to an account of the identity provider before.',
  administrator_made: 'Administrators made access tokens for the address, which signing in does not take over.',
};

function Why({ refused: { refused, detail, groups, expected } }: { refused: Refused }) {
  return (
    <div className="people-why">
      <span>{REASONS[refused] ?? refused}</span>
      <span className="soft small">{detail}</span>
      {expected.length > 0 && (
        <span className="small">
          Let in: <Groups groups={expected} /> Came: <Groups groups={groups} />
        </span>
      )}
    </div>
  );
}
