import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useOperation } from '../../api/queries.ts';
import { Button } from '../../parts/button.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { EndAll } from './end-all.tsx';
import { Groups, type Person, States } from './people-table.tsx';
import { Deprovision, Rebind } from './person-dialogs.tsx';
import { RefusedSignIns } from './refused-sign-ins.tsx';
import { SessionTable } from './session-table.tsx';

/** One person: account, groups, sessions, refusals, and what an administrator can end. */
export function PersonDrawer({ email, onClose }: { email: string | undefined; onClose: () => void }) {
  return (
    <Drawer is_open={email !== undefined && email !== ''} onClose={onClose} title={email ?? ''}>
      {email !== undefined && <Details key={email} email={email} />}
    </Drawer>
  );
}

function Details({ email }: { email: string }) {
  const people = useOperation('listPeople', { user: email });
  return (
    <Loaded query={people}>
      {({ people: [person] }) =>
        person === undefined ? (
          <EmptyState title="Nobody here has this address">They never signed in, nor had an access token.</EmptyState>
        ) : (
          <PersonDetails person={person} />
        )
      }
    </Loaded>
  );
}

type Asked = 'end_all' | 'deprovision' | 'rebind';

function PersonDetails({ person }: { person: Person }) {
  const [asked, ask] = useState<Asked>();
  const [with_ended, showEnded] = useState(false);
  const { email } = person;
  const close = () => ask(undefined);
  const open = person.client_sessions + person.console_sessions;
  return (
    <div className="people-details">
      <Facts person={person} />
      <Part title="Sessions">
        <SessionTable user={email} ended={with_ended} />
        <div className="people-pages">
          <Button kind="quiet" aria-pressed={with_ended} onClick={() => showEnded(!with_ended)}>
            {with_ended ? 'Hide sessions that ended' : 'Show sessions that ended'}
          </Button>
          {open > 0 && <Button onClick={() => ask('end_all')}>End all sessions</Button>}
        </div>
      </Part>
      <Part title="Refused sign-ins">
        <RefusedSignIns user={email} />
      </Part>
      <Part title="When somebody leaves, or an account changes">
        <div className="people-pages">
          <Button kind="danger" onClick={() => ask('deprovision')}>
            Take away access
          </Button>
          <Button onClick={() => ask('rebind')}>Give the address to another account</Button>
        </div>
      </Part>
      {asked === 'end_all' && <EndAll person={person} onClose={close} />}
      {asked === 'deprovision' && <Deprovision person={person} onClose={close} />}
      {asked === 'rebind' && <Rebind person={person} onClose={close} />}
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="people-part">
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Facts({ person }: { person: Person }) {
  const { name, groups, issuer, subject, signed_in_at, tokens, own_tokens, own_tokens_suspend_at, email } = person;
  const { is_admin, own_tokens_suspended, open_to_sign_in, refused_at } = person;
  const is_odd = is_admin || own_tokens_suspended || open_to_sign_in || refused_at !== null;
  return (
    <dl className="people-facts">
      {name !== null && <Fact title="Name">{name}</Fact>}
      {is_odd && (
        <Fact title="To know">
          <States person={person} />
        </Fact>
      )}
      <Fact title="Groups">
        <Groups groups={groups} shown={20} />
      </Fact>
      <Fact title="Account">
        {subject === null ? (
          <span className="soft">none yet: nobody signed in with the address</span>
        ) : (
          <span className="people-name">
            <code>{subject}</code>
            <span className="soft small">{issuer}</span>
          </span>
        )}
      </Fact>
      <Fact title="Last verified">
        {signed_in_at === null ? <span className="soft">never</span> : <TimeText at={signed_in_at} form="long" />}
      </Fact>
      <Fact title="Access tokens">
        {tokens} in force, {own_tokens} of their own making
        {own_tokens_suspend_at !== null && (
          <>
            ; suspended <TimeText at={own_tokens_suspend_at} form="relative" /> unless verified before
          </>
        )}
      </Fact>
      <Fact title="More">
        <span className="people-groups">
          <Elsewhere to="/requests" user={email}>
            Requests
          </Elsewhere>
          <Elsewhere to="/tokens" user={email}>
            Tokens
          </Elsewhere>
          <Elsewhere to="/limits" user={email}>
            Limits
          </Elsewhere>
          <Elsewhere to="/policies" user={email}>
            Policies
          </Elsewhere>
        </span>
      </Fact>
    </dl>
  );
}

function Fact({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Elsewhere({ to, user, children }: { to: string; user: string; children: ReactNode }) {
  return (
    <Link to={to as never} search={{ user } as never}>
      {children}
    </Link>
  );
}
