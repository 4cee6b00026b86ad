import { Link } from '@tanstack/react-router';
import { Drawer } from '../../parts/dialog.tsx';
import { TimeText } from '../../parts/times.tsx';
import { ACTIONS, type Change, type ChangedField, fieldsOf, personIn } from './actions.ts';

const KINDS: Readonly<Record<Change['actor']['kind'], string>> = {
  person: 'a person who signed in',
  command: 'somebody at a command line',
  gateway: 'the gateway itself',
  service: 'a service token',
};

/** All that is known of one change, and where to look further. */
export function ChangeDrawer({ change, onClose }: { change: Change; onClose: () => void }) {
  const { id, at, actor, action, subject, words } = change;
  const fields = fieldsOf(change);
  return (
    <Drawer is_open onClose={onClose} title={ACTIONS[action] ?? action}>
      <p className="audit-sentence">{words}</p>
      <dl className="audit-facts">
        <dt>When</dt>
        <dd>
          <TimeText at={at} form="long" />
        </dd>
        <dt>By</dt>
        <dd>
          <Link to="/audit" search={{ actor: actor.name } as never}>
            {actor.name}
          </Link>{' '}
          <span className="soft">({KINDS[actor.kind]})</span>
        </dd>
        <dt>Of</dt>
        <dd>
          <Link to="/audit" search={{ subject } as never}>
            {subject}
          </Link>
        </dd>
        <dt>Action</dt>
        <dd>
          <code>{action}</code>, change {id}
        </dd>
      </dl>
      {fields.length > 0 && (
        <section aria-label="What was written down">
          <dl className="audit-facts">
            {fields.map((field) => [
              <dt key={field.name}>{field.name}</dt>,
              <Value key={`${field.name} value`} of={field} />,
            ])}
          </dl>
        </section>
      )}
      <Further change={change} />
    </Drawer>
  );
}

/** Both values where it had another one before. */
function Value({ of: { before, after } }: { of: ChangedField }) {
  if (before === undefined || after === undefined) return <dd>{after ?? before}</dd>;
  return (
    <dd>
      <span className="soft">{before}</span> <span className="unseen">then</span>
      <span aria-hidden="true">→</span> {after}
    </dd>
  );
}

/** Other pages about the same. */
function Further({ change }: { change: Change }) {
  const user = personIn(change);
  const { action } = change;
  if (action.startsWith('upstream.')) return <Link to="/upstreams">How upstreams are now</Link>;
  if (user === undefined) return null;
  return (
    <nav aria-label="More about this person">
      <ul className="audit-further">
        <li>
          <Link to="/audit" search={{ subject: user } as never}>
            All changes about {user}
          </Link>
        </li>
        <li>
          <Link to="/people" search={{ user } as never}>
            Sign-ins and sessions
          </Link>
        </li>
        <li>
          <Link to="/tokens" search={{ user } as never}>
            Access tokens
          </Link>
        </li>
        <li>
          <Link to="/limits" search={{ user } as never}>
            Limits
          </Link>
        </li>
        <li>
          <Link to="/requests" search={{ user } as never}>
            Requests
          </Link>
        </li>
      </ul>
    </nav>
  );
}
