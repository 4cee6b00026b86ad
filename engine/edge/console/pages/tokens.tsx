import type { ReactNode } from 'react';
import { type InputOf, useOperation, usePageSearch, useSession } from '../api.ts';
import type { ServiceScope, ServiceToken, Token, TokenGroup } from '../operations.ts';
import {
  ago,
  Badge,
  Button,
  below,
  Card,
  CopyBlock,
  counted,
  EmptyState,
  Loaded,
  Opens,
  PageHead,
  say,
  Tabs,
  TimeText,
  To,
  type Tone,
  useClose,
  When,
} from '../parts/basic.tsx';
import { ClientSetup } from '../parts/client-setup.tsx';
import { OperationForm, Panel } from '../parts/dialog.tsx';
import type { Option } from '../parts/field.tsx';
import { type Column, type Columns, ListPage } from '../parts/table.tsx';

const DAY_SECONDS = 86_400;
const LIVES: readonly Option[] = [
  [String(30 * DAY_SECONDS), 'after 30 days'],
  [String(90 * DAY_SECONDS), 'after 90 days'],
  [String(365 * DAY_SECONDS), 'after a year'],
];
const EXPIRES = { label: 'Expires', initial: String(90 * DAY_SECONDS) } as const;

/** How long a token that was replaced works on. */
const OVERLAPS: readonly Option[] = [
  [String(DAY_SECONDS), 'for a day'],
  ['3600', 'for an hour'],
  [String(7 * DAY_SECONDS), 'for a week'],
  ['0', 'not at all: it leaked'],
];

/** What states look like, and what they mean where their word alone does not say. */
const STATES: Readonly<Record<ServiceToken['state'] | Token['state'], readonly [tone: Tone, means?: string]>> = {
  active: ['good'],
  replaced: ['info', 'Works until it expires; another has taken its place.'],
  suspended: ['warn', 'Refused until its owner signs in again.'],
  unowned: ['warn', 'Its owner is no administrator any more; rotate it to take it over.'],
  revoked: ['plain'],
  expired: ['plain'],
};

function State({ token, children }: { token: Token | ServiceToken; children?: ReactNode }) {
  const [tone, means] = STATES[token.state];
  return (
    <>
      <Badge tone={tone}>{token.state}</Badge>
      {means !== undefined && below(means)}
      {children}
    </>
  );
}

/** What can be done to each token that is in force. */
const ACTIONS: Column<Token | ServiceToken> = {
  title: 'Actions',
  cell: (token) =>
    token.state !== 'revoked' &&
    token.state !== 'expired' && (
      <span className="row-actions">
        {token.state !== 'replaced' && (
          <Opens kind="quiet" aria-label={`Rotate ${token.name}`} shows={<RotateDialog token={token} />}>
            Rotate
          </Opens>
        )}
        <Opens kind="quiet" aria-label={`Revoke ${token.name}`} shows={<RevokeDialog token={token} />}>
          Revoke
        </Opens>
      </span>
    ),
};

interface Made {
  readonly token: string;
  readonly name: string;
  readonly group?: string;
}

/** A token that has just been made, for the only time it is shown; one of a group with how clients are set up with it. */
function MadeDialog({ made, title, onClose }: { made: Made; title: string; onClose?: () => void }) {
  return (
    <Panel onClose={onClose} title={title}>
      <p>
        <strong>Copy it now.</strong> It is shown this once, and kept nowhere.
      </p>
      <CopyBlock text={made.token} label="The new token" />
      {made.group !== undefined && <NextSteps group={made.group} />}
      <Done />
    </Panel>
  );
}

function Done() {
  return (
    <div className="row end">
      <Button kind="primary" onClick={useClose()}>
        I have it
      </Button>
    </div>
  );
}

function NextSteps({ group }: { group: string }) {
  const groups = useOperation('listTokenGroups', {});
  const [model] = groups.data?.token_groups.find(({ name }) => name === group)?.models ?? [];
  if (model === undefined) return null;
  return (
    <>
      <h3>Set up a client with it</h3>
      <ClientSetup model={model} credential="access-token" />
    </>
  );
}

interface TokenDialog {
  readonly token: Token | ServiceToken;
}

const isOfModels = (token: Token | ServiceToken): token is Token => 'group' in token;

/** Puts a new token in the place of one, which works on for a while. */
function RotateDialog({ token }: TokenDialog) {
  const of_models = isOfModels(token);
  return (
    <OperationForm
      operation={of_models ? 'rotateToken' : 'rotateServiceToken'}
      input={{ id: token.id }}
      fields={{
        overlap_seconds: {
          label: 'The old one works on',
          options: OVERLAPS,
          hint: 'Long enough to bring the new one everywhere.',
        },
      }}
      done={(made) => ({
        shows: <MadeDialog made={made} title={`New token ${of_models ? 'for' : 'of'} ${made.name}`} />,
      })}
      title={of_models ? `Rotate ${token.name}` : `Rotate the token of ${token.name}`}
      action="Make the new token"
    >
      <p>
        {of_models
          ? 'A new token with the same owner, group, name and end takes the place of this one.'
          : 'A new token with the same name and rights takes its place, and you answer for it.'}
      </p>
      {of_models && <Used token={token} />}
    </OperationForm>
  );
}

/** Ends a token, and says what stops working. */
function RevokeDialog({ token }: TokenDialog) {
  const of_models = isOfModels(token);
  return (
    <OperationForm
      operation={of_models ? 'revokeToken' : 'revokeServiceToken'}
      input={{ id: token.id }}
      done={(answer) => {
        if (!of_models) return [`Revoked the token of ${token.name}.`];
        const others = 'also_revoked' in answer && answer.also_revoked.length > 0 ? ', and what it replaced' : '';
        return [`Revoked ${token.name} of ${token.user}${others}.`];
      }}
      title={of_models ? `Revoke ${token.name}` : `Revoke the token of ${token.name}`}
      action="Revoke the token"
      kind="danger"
    >
      {of_models ? (
        <>
          <p>
            Every client that uses <code>{token.prefix}…</code> of {token.user} is refused within a second. This cannot
            be taken back; to change the token without a break, rotate it.
          </p>
          <Used token={token} />
        </>
      ) : (
        <p>
          Programs that use <code>{token.prefix}…</code> may no more: {token.scopes.join(', ')}. This cannot be taken
          back.
        </p>
      )}
    </OperationForm>
  );
}

function Used({ token: { last_used_at } }: { token: Token }) {
  if (last_used_at === null) return <p className="soft">It was never used, so nothing stops working.</p>;
  return (
    <p className="soft">
      Last used <TimeText at={last_used_at} form="relative" />, <TimeText at={last_used_at} form="long" />.
    </p>
  );
}

interface Creating {
  readonly onClose: () => void;
}

/** Makes an access token: what it is for, which models it opens, how long it lives; then shows it once. */
function CreateDialog({ group: wanted, onClose }: Creating & { group: string | undefined }) {
  const { person, sign_in } = useSession();
  const groups = useOperation('listTokenGroups', {});
  const open = groups.data?.token_groups.filter(({ may_make }) => may_make) ?? [];
  const names = open.map(({ name }) => name);
  const chosen = (group = wanted) => open.find(({ name }) => name === group) ?? open[0];
  // Whoever came by the link of a command is nobody who could own a token.
  const must = sign_in === 'link';
  const opens = (models: readonly string[] = []) =>
    models.length === 0 ? 'Opens no model.' : `Opens ${models.join(', ')}.`;
  const owner = {
    label: 'Owner',
    required: must,
    placeholder: must ? undefined : person.email,
    hint: 'A person, or the address of a machine such as ci@example.com. Somebody who has not signed in yet is let in under People afterwards.',
  };
  return (
    <OperationForm
      operation="createToken"
      fields={({ group }) => ({
        name: {
          label: 'What is it for?',
          hint: 'Such as the device it will live on: laptop.',
          maxLength: 120,
        },
        ...(open.length > 0 && {
          group: { label: 'Token group', options: names, initial: chosen()!.name, hint: opens(chosen(group)!.models) },
        }),
        expires_in_seconds: { ...EXPIRES, options: [...LIVES, ['', 'never']] },
        ...(person.is_admin && {
          user: owner,
          team: { label: 'Team whose limits it shares' },
          project: { label: 'Project' },
        }),
      })}
      done={(made) => ({
        shows: (
          <MadeDialog
            made={made}
            title={made.user === person.email ? 'Your new token' : `New token of ${made.user}`}
            onClose={onClose}
          />
        ),
      })}
      onClose={onClose}
      title="Create a token"
      action="Create the token"
    >
      {(field) => (
        <>
          {field('name')}
          {open.length > 0 && field('group')}
          {field('expires_in_seconds')}
          {person.is_admin && (
            <details open={must || undefined}>
              <summary>{must ? 'Whose it is' : 'For somebody else, a team or a project'}</summary>
              <div className="stack">{['user', 'team', 'project'].map(field)}</div>
            </details>
          )}
        </>
      )}
    </OperationForm>
  );
}

/** What each scope allows; the compiler asks for the words of a new one. */
const SCOPES: Readonly<Record<ServiceScope, string>> = {
  'tokens:read': 'see access tokens and token groups',
  'tokens:write': 'make, rotate and revoke access tokens',
  'sessions:read': 'see sessions',
  'sessions:write': 'end sessions',
  'people:read': 'see people and refused sign-ins',
  'people:write': 'deprovision and rebind people',
  'limits:read': 'see limits and grants',
  'limits:write': 'set limits, give and revoke grants',
  'upstreams:read': 'see upstreams',
  'upstreams:write': 'drain and resume upstreams',
  'usage:read': 'see usage and costs',
  'requests:read': 'see requests and how they were decided',
  'changes:read': 'see who changed what',
};

/** Makes a service token: for which program, with which rights; then shows it once. */
function CreateServiceToken({ onClose }: Creating) {
  return (
    <OperationForm
      operation="createServiceToken"
      fields={{
        name: { label: 'Which program is it for?', hint: 'Such as the nightly cost report.' },
        scopes: { label: 'What may it do?', choices: SCOPES },
        expires_in_seconds: { ...EXPIRES, options: LIVES },
      }}
      done={(made) => ({
        shows: <MadeDialog made={made} title={`New token of ${made.name}`} onClose={onClose} />,
      })}
      onClose={onClose}
      title="Create a service token"
      action="Create the token"
    />
  );
}

function TokenGroups() {
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
            <ul className="fitted wide bare any">
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
  const more = models.length > NAMED ? ` and ${models.length - NAMED} more` : '';
  return (
    <li className="stack top framed flush">
      <h3>{name}</h3>
      {!is_configured && (
        <p>
          <Badge tone="warn">Not in gateway.yaml</Badge>
        </p>
      )}
      <p>{models.length === 0 ? 'Opens no model.' : `Opens ${models.slice(0, NAMED).join(', ')}${more}.`}</p>
      <p className="soft small">{whoMayMake(group, is_admin)}</p>
      <p className="small">
        <button type="button" className="row-button" onClick={() => change({ group: name, after: undefined })}>
          {counted(in_force, 'token')} in force
        </button>
        {suspended > 0 && `, ${suspended} of them suspended`}
        {last_used_at !== null && say`, last used ${ago(last_used_at)}`}
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

const STATE_FILTER: readonly Option[] = [
  ['in_force', 'in force'],
  'active',
  'suspended',
  ['replaced', 'replaced, still working'],
  'expired',
  'revoked',
  'all',
];

/** Access tokens, the newest first, narrowed by what the address says. */
function TokenList() {
  const [search, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const groups = useOperation('listTokenGroups', {});
  const state = STATE_FILTER.flatMap((each) => [each].flat()).find((each) => each === search.state) ?? 'in_force';
  const names = groups.data?.token_groups.map(({ name }) => name) ?? [];
  return (
    <ListPage
      operation="listTokens"
      input={{
        order: 'newest',
        user: search.user,
        group: search.group,
        search: search.search,
        state: state === 'all' ? undefined : (state as InputOf<'listTokens'>['state']),
      }}
      title={is_admin ? 'Access tokens' : 'Your tokens'}
      filters={[
        {
          name: 'search',
          label: is_admin ? 'Name, owner or id' : 'Name or id',
          value: search.user ?? search.search ?? '',
          searchFor: (text) => ({ search: text, user: '' }),
        },
        {
          name: 'group',
          label: 'Group',
          options: [['', 'all'], ...new Set([...names, ...[search.group ?? []].flat()])],
        },
        { name: 'state', label: 'State', value: state, options: STATE_FILTER },
      ]}
      page={50}
      columns={[...columnsFor(is_admin), ACTIONS]}
      narrowed={[
        'No token is like that',
        <Button
          key="all"
          kind="quiet"
          onClick={() => change({ user: '', group: '', search: '', state: '', after: '' })}
        >
          Show all that are in force
        </Button>,
      ]}
      empty={['There are no tokens yet', 'Create one for each device or purpose.']}
    />
  );
}

function Named({ token: { name, prefix }, children = name }: { token: Token | ServiceToken; children?: ReactNode }) {
  return (
    <>
      {children}
      <code className="line soft small">{prefix}…</code>
    </>
  );
}

function columnsFor(is_admin: boolean): Columns<Token> {
  return [
    {
      title: 'Name',
      cell: (token) => (
        <Named token={token}>
          <To page={['/requests', { token: token.id }]} title="Its requests">
            {token.name}
          </To>
        </Named>
      ),
    },
    is_admin && {
      title: 'Owner',
      cell: ({ user, self_service, created_by }) => (
        <>
          <To page={['/people', { user }]}>{user}</To>
          {!self_service && <span className="line soft small">made by {created_by}</span>}
        </>
      ),
    },
    { title: 'Group', cell: 'group' },
    {
      title: 'State',
      cell: (token) => (
        <State token={token}>
          {token.suspends_at !== null && (
            <span className="line soft small">
              is suspended <TimeText at={token.suspends_at} form="relative" /> unless its owner signs in
            </span>
          )}
        </State>
      ),
    },
    { title: 'Last used', cell: ({ last_used_at }) => <When at={last_used_at} /> },
    { title: 'Expires', cell: ({ expires_at }) => <When at={expires_at} /> },
  ];
}

const SERVICE_COLUMNS: Columns<ServiceToken> = [
  { title: 'Program', cell: (token) => <Named token={token} /> },
  { title: 'May', cell: 'scopes' },
  { title: 'Answers for it', cell: ({ owner, created_by }) => owner ?? created_by },
  { title: 'State', cell: (token) => <State token={token} /> },
  { title: 'Last used', cell: ({ last_used_at }) => <When at={last_used_at} /> },
  { title: 'Expires', cell: ({ expires_at }) => <TimeText at={expires_at} form="relative" /> },
  ACTIONS,
];

/** Access tokens per group, and for administrators the service tokens of programs. */
export function Page() {
  const [search, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const is_service = is_admin && search.tab === 'service';
  const close = () => change({ create: undefined });
  return (
    <>
      <PageHead
        title="Tokens"
        intro={
          is_admin
            ? 'Access tokens are for the models; service tokens are for programs that use the admin API.'
            : 'Credentials for your clients, one for each device or purpose.'
        }
      >
        <Button kind="primary" onClick={() => change({ create: is_service ? 'service' : 'token' })}>
          {is_service ? 'Create a service token' : 'Create a token'}
        </Button>
      </PageHead>
      {is_admin && (
        <Tabs
          label="Kinds of tokens"
          path="/tokens"
          tabs={[
            { text: 'Access tokens', search: {}, is_shown: !is_service },
            { text: 'Service tokens', search: { tab: 'service' }, is_shown: is_service },
          ]}
        />
      )}
      {is_service ? (
        <ListPage
          operation="listServiceTokens"
          title="Service tokens"
          columns={SERVICE_COLUMNS}
          empty={[
            'There are no service tokens yet',
            'A program that reads usage or makes tokens gets one of its own, with no more rights than it needs.',
          ]}
        />
      ) : (
        <>
          <TokenGroups />
          <TokenList />
        </>
      )}
      {search.create !== undefined &&
        (is_service ? <CreateServiceToken onClose={close} /> : <CreateDialog group={search.group} onClose={close} />)}
    </>
  );
}
