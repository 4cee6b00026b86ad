import { useMemo } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { Badge } from '../../parts/badge.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Count, counted } from '../../parts/numbers.tsx';
import { TimeText } from '../../parts/times.tsx';

/** Somebody the gateway knows. */
export type Person = AnswerOf<'listPeople'>['people'][number];

const GROUPS_SHOWN = 3;

const COLUMNS: readonly Column<Person>[] = [
  { id: 'email', title: 'Person', cell: (person) => <Named person={person} />, sort: ({ email }) => email },
  { id: 'groups', title: 'Groups', cell: ({ groups }) => <Groups groups={groups} /> },
  {
    id: 'signed_in_at',
    title: 'Last verified',
    cell: ({ signed_in_at }) =>
      signed_in_at === null ? <span className="soft">never</span> : <TimeText at={signed_in_at} form="relative" />,
    sort: ({ signed_in_at }) => signed_in_at ?? '',
  },
  {
    id: 'sessions',
    title: 'Signed in with',
    cell: ({ client_sessions, console_sessions }) => (
      <span className="people-short">{sessionsInWords(client_sessions, console_sessions)}</span>
    ),
    sort: ({ client_sessions, console_sessions }) => client_sessions + console_sessions,
  },
  {
    id: 'tokens',
    title: 'Access tokens',
    cell: ({ tokens }) => <Count of={tokens} />,
    sort: ({ tokens }) => tokens,
    is_number: true,
  },
  { id: 'state', title: 'To know', cell: (person) => <States person={person} /> },
];

/** `2 programs, 1 browser`, without what there is none of. */
export function sessionsInWords(programs: number, browsers: number): string {
  const parts = [programs > 0 && counted(programs, 'program'), browsers > 0 && counted(browsers, 'browser')];
  return parts.filter((part) => part !== false).join(', ') || 'nothing';
}

/** People a line each; whoever is chosen opens beside. */
export function PeopleTable({
  people,
  open,
  onOpen,
}: {
  people: readonly Person[];
  open: string | undefined;
  onOpen: (email: string) => void;
}) {
  const rows = useMemo(() => people, [people]);
  return (
    <DataTable
      label="People"
      columns={COLUMNS}
      rows={rows}
      keyOf={({ email }) => email}
      onOpen={({ email }) => onOpen(email)}
      isOpen={({ email }) => email === open}
    />
  );
}

function Named({ person: { email, name } }: { person: Person }) {
  return (
    <span className="people-name">
      {email}
      {name !== null && <span className="soft small">{name}</span>}
    </span>
  );
}

/** The first groups of somebody; all of them are the title. */
export function Groups({ groups, shown = GROUPS_SHOWN }: { groups: readonly string[]; shown?: number }) {
  if (groups.length === 0) return <span className="soft">none</span>;
  const rest = groups.length - shown;
  return (
    <span className="people-groups" title={groups.join(', ')}>
      {groups.slice(0, shown).map((group) => (
        <Badge key={group}>{group}</Badge>
      ))}
      {rest > 0 && <span className="soft small">and {rest} more</span>}
    </span>
  );
}

/** What is out of the ordinary about somebody. */
export function States({ person }: { person: Person }) {
  const { is_admin, own_tokens_suspended, open_to_sign_in, refused_at } = person;
  return (
    <span className="people-groups">
      {is_admin && <Badge tone="info">Administrator</Badge>}
      {own_tokens_suspended && <Badge tone="warn">Tokens suspended</Badge>}
      {open_to_sign_in && <Badge tone="warn">Address is free</Badge>}
      {refused_at !== null && <Badge tone="warn">Refused lately</Badge>}
    </span>
  );
}
