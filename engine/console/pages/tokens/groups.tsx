import type { TokenGroup } from '../../api/operations.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { counted } from '../../parts/numbers.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';

/** Token groups: what each opens, who may make tokens in it, and how many there are. */
export function TokenGroups() {
  const query = useOperation('listTokenGroups', {});
  return (
    <Card title="Token groups">
      <Loaded query={query} lines={4}>
        {({ token_groups }) =>
          token_groups.length === 0 ? (
            <EmptyState title="You are a member of no token group">
              An administrator adds one of your groups to the members of a token group in gateway.yaml.
            </EmptyState>
          ) : (
            <ul className="tokens-groups">
              {token_groups.map((group) => (
                <Group key={group.name} group={group} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

/** As many models as are named before the rest is counted. */
const NAMED = 6;

function Group({ group }: { group: TokenGroup }) {
  const [, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const { name, models, is_configured, may_make, tokens } = group;
  const { in_force, suspended, last_used_at } = tokens;
  return (
    <li>
      <h3>{name}</h3>
      {!is_configured && <Badge tone="warn">Not in gateway.yaml</Badge>}
      <p>
        {models.length === 0 ? (
          'Opens no model.'
        ) : (
          <>
            Opens {models.slice(0, NAMED).join(', ')}
            {models.length > NAMED && ` and ${models.length - NAMED} more`}.
          </>
        )}
      </p>
      <p className="soft small">{whoMayMake(group, is_admin)}</p>
      <p className="small">
        <button type="button" className="row-button" onClick={() => change({ group: name, after: undefined })}>
          {counted(in_force, 'token')} in force
        </button>
        {suspended > 0 && `, ${suspended} of them suspended`}
        {last_used_at !== null && (
          <>
            , last used <TimeText at={last_used_at} form="relative" />
          </>
        )}
      </p>
      {may_make && (
        <div>
          <Button
            aria-label={`Create a token in ${name}`}
            onClick={() => change({ create: 'token', group: name, after: undefined })}
          >
            Create a token
          </Button>
        </div>
      )}
    </li>
  );
}

function whoMayMake(
  { is_configured, members, is_for_everybody_else, may_make }: TokenGroup,
  is_admin: boolean,
): string {
  if (!is_configured) return 'Its tokens may use nothing; revoke them, or add the group again.';
  if (!is_admin) return may_make ? 'You may make tokens in it.' : 'An administrator made your tokens in it.';
  const who = [...members, ...(is_for_everybody_else ? ['everybody who is in no group'] : [])];
  return who.length === 0 ? 'Only administrators make tokens in it.' : `May make tokens: ${who.join(', ')}.`;
}
