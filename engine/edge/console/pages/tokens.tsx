import type { ReactNode } from 'react';
import { type InputOf, useOperation, usePageSearch, useSession } from '../api.ts';
import { type ServiceToken, type Token, type TokenGroup, WORDS } from '../operations.ts';
import { Badge, CopyBlock, Opens, Query, type Tone } from '../parts/basic.tsx';
import { ClientSetup } from '../parts/client-setup.tsx';
import { CloseButton, OperationForm, Panel } from '../parts/dialog.tsx';
import type { Option } from '../parts/field.tsx';
import { EmptyState, PageHead, Tabs, To } from '../parts/page.tsx';
import { type Column, type Columns, ListPage } from '../parts/table.tsx';
import { ago, below, counted, longAt, say, When } from '../parts/words.tsx';

const DAY_SECONDS = 86_400;
const LIVES: readonly Option[] = [
  [String(30 * DAY_SECONDS), 'after 30 days'],
  [String(90 * DAY_SECONDS), 'after 90 days'],
  [String(365 * DAY_SECONDS), 'after a year'],
];
const EXPIRES = { label: 'Expires', initial: String(90 * DAY_SECONDS) } as const;

const OVERLAPS: readonly Option[] = [
  [String(DAY_SECONDS), 'a day'],
  ['3600', 'an hour'],
  [String(7 * DAY_SECONDS), 'a week'],
  ['0', 'no time (leaked)'],
];

const STATES: Readonly<Record<ServiceToken['state'] | Token['state'], readonly [tone: Tone, means?: string]>> = {
  active: ['good'],
  replaced: ['info', 'Rotated; valid until it expires.'],
  suspended: ['warn', 'Rejected until its owner signs in again.'],
  unowned: ['warn', 'Its owner is no longer an administrator; rotate it to take it over.'],
  revoked: ['plain'],
  expired: ['plain'],
};

function State({ token, children }: { token: Token | ServiceToken; children?: ReactNode }) {
  const [tone, means] = STATES[token.state];
  return say`${<Badge tone={tone}>{token.state}</Badge>}${means !== undefined && below(means)}${children}`;
}

const ACTIONS: Column<Token | ServiceToken> = {
  title: 'Actions',
  cell: (token) =>
    token.state !== 'revoked' &&
    token.state !== 'expired' && (
      <span className="row-actions row">
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

function MadeDialog({ made, title }: { made: { readonly token: string; readonly group?: string }; title: string }) {
  return (
    <Panel title={title}>
      <p>
        <strong>Copy it now.</strong> It is not stored and cannot be shown again.
      </p>
      <CopyBlock text={made.token} label="The new token" />
      {made.group !== undefined && <NextSteps group={made.group} />}
      <div className="row end">
        <CloseButton kind="primary">I have it</CloseButton>
      </div>
    </Panel>
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

type TokenDialog = { readonly token: Token | ServiceToken };

const isOfModels = (token: Token | ServiceToken): token is Token => 'group' in token;

function RotateDialog({ token }: TokenDialog) {
  const of_models = isOfModels(token);
  return (
    <OperationForm
      operation={of_models ? 'rotateToken' : 'rotateServiceToken'}
      input={{ id: token.id }}
      fields={{
        overlap_seconds: {
          label: 'Old token stays valid for',
          options: OVERLAPS,
          hint: 'Long enough to deploy the new token everywhere.',
        },
      }}
      done={(made) => ({ shows: <MadeDialog made={made} title={`New token for ${made.name}`} /> })}
      title={`Rotate ${token.name}`}
      action="Create the new token"
      intro={
        of_models
          ? 'Creates a new token with the same owner, group, name and expiry.'
          : 'Creates a new token with the same name and scopes; you become its owner.'
      }
    >
      {of_models && <Used token={token} />}
    </OperationForm>
  );
}

function RevokeDialog({ token }: TokenDialog) {
  const of_models = isOfModels(token);
  const prefix = <code>{token.prefix}…</code>;
  return (
    <OperationForm
      operation={of_models ? 'revokeToken' : 'revokeServiceToken'}
      input={{ id: token.id }}
      done={(response) => {
        const owner = of_models ? ` of ${token.user}` : '';
        const others =
          'also_revoked' in response && response.also_revoked.length > 0 ? ' and the tokens it replaced' : '';
        return [`Revoked ${token.name}${owner}${others}.`];
      }}
      title={`Revoke ${token.name}`}
      action="Revoke the token"
      kind="danger"
      intro={
        of_models
          ? say`Clients that use ${prefix} of ${token.user} are rejected within a second. This cannot be undone; to replace the token without downtime, rotate it.`
          : say`Programs that use ${prefix} lose these scopes: ${token.scopes.join(', ')}. This cannot be undone.`
      }
    >
      {of_models && <Used token={token} />}
    </OperationForm>
  );
}

function Used({ token: { last_used_at } }: { token: Token }) {
  if (last_used_at === null) return <p className="soft">Never used.</p>;
  return <p className="soft">{say`Last used ${ago(last_used_at)}, ${longAt(last_used_at)}.`}</p>;
}

function CreateDialog({ group: wanted }: { group: string | undefined }) {
  const { person, sign_in } = useSession();
  const groups = useOperation('listTokenGroups', {});
  const open = groups.data?.token_groups.filter(({ may_make }) => may_make) ?? [];
  const names = open.map(({ name }) => name);
  const chosen = (group = wanted) => open.find(({ name }) => name === group) ?? open[0];
  // A session by link is not a person and cannot own a token.
  const must = sign_in === 'link';
  const modelsOf = (models: readonly string[] = []) => `Models: ${models.join(', ') || 'none'}.`;
  const owner = {
    label: 'Owner',
    required: must,
    placeholder: must ? undefined : person.email,
    hint: 'E-mail address of a person, or of a machine such as ci@example.com. The first sign-in with an address that already has such tokens is rejected until you reassign the address under People.',
  };
  return (
    <OperationForm
      operation="createToken"
      fields={({ group }) => ({
        name: { hint: 'Device or purpose, such as laptop.' },
        ...(open.length > 0 && {
          group: {
            label: 'Token group',
            options: names,
            initial: chosen()!.name,
            hint: modelsOf(chosen(group)!.models),
          },
        }),
        expires_in_seconds: { ...EXPIRES, options: [...LIVES, ['', 'never']] },
        ...(person.is_admin && {
          user: owner,
          team: { label: 'Team (for limits and usage)' },
          project: {},
        }),
      })}
      done={(made) => ({
        shows: (
          <MadeDialog made={made} title={made.user === person.email ? 'Your new token' : `New token of ${made.user}`} />
        ),
      })}
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
              <summary>{must ? 'Owner' : 'Another owner, a team or a project'}</summary>
              <div className="stack">{['user', 'team', 'project'].map(field)}</div>
            </details>
          )}
        </>
      )}
    </OperationForm>
  );
}

function CreateServiceToken() {
  return (
    <OperationForm
      operation="createServiceToken"
      fields={{
        name: { label: 'Program', hint: 'Such as nightly cost report.' },
        scopes: { choices: WORDS.ServiceScope },
        expires_in_seconds: { ...EXPIRES, options: LIVES },
      }}
      done={(made) => ({ shows: <MadeDialog made={made} title={`New token for ${made.name}`} /> })}
      title="Create a service token"
      action="Create the token"
    />
  );
}

function TokenGroups() {
  return (
    <Query operation="listTokenGroups" title="Token groups">
      {({ token_groups }) =>
        token_groups.length === 0 ? (
          <EmptyState title="You are not in any token group">
            Ask your administrator to add one of your groups to a token group in gateway.yaml.
          </EmptyState>
        ) : (
          <ul className="fitted wide bare any">
            {token_groups.map((group) => (
              <Group key={group.name} group={group} />
            ))}
          </ul>
        )
      }
    </Query>
  );
}

const NAMED = 6;

function Group({ group }: { group: TokenGroup }) {
  const [, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const { name, models, is_configured, may_make, tokens } = group;
  const { in_force, suspended, last_used_at } = tokens;
  const more = models.length > NAMED ? ` and ${models.length - NAMED} more` : '';
  return (
    <li className="stack top framed">
      <h3>{name}</h3>
      {!is_configured && (
        <p>
          <Badge tone="warn">Not in gateway.yaml</Badge>
        </p>
      )}
      <p>{models.length === 0 ? 'No models.' : `Models: ${models.slice(0, NAMED).join(', ')}${more}.`}</p>
      <p className="soft small">{whoMayMake(group, is_admin)}</p>
      <p className="small">
        <button type="button" className="row-button" onClick={() => change({ group: name, after: undefined })}>
          {counted(in_force - suspended, 'valid token')}
        </button>
        {suspended > 0 && `, ${suspended} suspended`}
        {last_used_at !== null && say`, last used ${ago(last_used_at)}`}
      </p>
      {may_make && (
        <div>
          <Opens aria-label={`Create a token in ${name}`} shows={<CreateDialog group={name} />}>
            Create a token
          </Opens>
        </div>
      )}
    </li>
  );
}

function whoMayMake(
  { is_configured, members, is_for_everybody_else, may_make }: TokenGroup,
  is_admin: boolean,
): string {
  if (!is_configured) return 'Its tokens have no models; revoke them, or add the group again.';
  if (!is_admin) return may_make ? 'You can create tokens in it.' : 'An administrator created your tokens in it.';
  const who = [...members, ...(is_for_everybody_else ? ['everyone in no other token group'] : [])];
  return who.length === 0 ? 'Only administrators can create tokens.' : `Can create tokens: ${who.join(', ')}.`;
}

const STATE_FILTER: readonly Option[] = [
  ['in_force', 'not ended'],
  'active',
  'suspended',
  ['replaced', 'replaced, still valid'],
  'expired',
  'revoked',
  'all',
];

function TokenList() {
  const [search] = usePageSearch();
  const { is_admin } = useSession().person;
  const groups = useOperation('listTokenGroups', {});
  const { state = 'in_force' } = search;
  const names = groups.data?.token_groups.map(({ name }) => name) ?? [];
  return (
    <ListPage
      operation="listTokens"
      input={{ order: 'newest', state: state === 'all' ? undefined : (state as InputOf<'listTokens'>['state']) }}
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
          options: [['', 'all'], ...new Set([...names, ...[search.group ?? []].flat()])],
        },
        { name: 'state', value: state, options: STATE_FILTER },
      ]}
      clear="Clear filters"
      page={50}
      columns={[...columnsFor(is_admin), ACTIONS]}
      narrowed={['No matching tokens', 'Clear the filters to find more.']}
      empty={['No tokens yet', 'Create one per device or purpose.']}
    />
  );
}

function Named({ token: { name, prefix }, children = name }: { token: Token | ServiceToken; children?: ReactNode }) {
  return (
    <span className="any">
      {children}
      <code className="line soft small">{prefix}…</code>
    </span>
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
      cell: ({ user, self_service, created_by }) =>
        say`${<To page={['/people', { user }]}>{user}</To>}${!self_service && below(`created by ${created_by}`)}`,
    },
    { title: 'Group', cell: 'group' },
    {
      title: 'State',
      cell: (token) => (
        <State token={token}>
          {token.suspends_at !== null && below(say`suspended ${ago(token.suspends_at)} unless its owner signs in`)}
        </State>
      ),
    },
    { title: 'Last used', cell: ({ last_used_at }) => <When at={last_used_at} /> },
    { title: 'Expires', cell: ({ expires_at }) => <When at={expires_at} /> },
  ];
}

const SERVICE_COLUMNS: Columns<ServiceToken> = [
  { title: 'Program', cell: (token) => <Named token={token} /> },
  { title: 'Scopes', cell: 'scopes' },
  { title: 'Owner', cell: ({ owner, created_by }) => owner ?? created_by },
  { title: 'State', cell: (token) => <State token={token} /> },
  { title: 'Last used', cell: ({ last_used_at }) => <When at={last_used_at} /> },
  { title: 'Expires', cell: ({ expires_at }) => ago(expires_at) },
  ACTIONS,
];

/** Tokens page: access tokens per group, and for administrators service tokens. */
export function Page() {
  const [search] = usePageSearch();
  const { is_admin } = useSession().person;
  const is_service = is_admin && search.tab === 'service';
  return (
    <>
      <PageHead
        title="Tokens"
        intro={
          is_admin
            ? 'Access tokens are for models, service tokens for programs that use the admin API.'
            : 'Credentials for your clients, one per device or purpose.'
        }
      >
        <Opens kind="primary" shows={is_service ? <CreateServiceToken /> : <CreateDialog group={search.group} />}>
          {is_service ? 'Create a service token' : 'Create a token'}
        </Opens>
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
          empty={['No service tokens yet', 'Create one per program, with the scopes it needs.']}
        />
      ) : (
        <>
          <TokenGroups />
          <TokenList />
        </>
      )}
    </>
  );
}
