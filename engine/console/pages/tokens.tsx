import { type ReactNode, useMemo, useState } from 'react';
import { type InputOf, useOperation, usePageSearch, useSession } from '../api.ts';
import type { ServiceScope, ServiceToken, Token, TokenGroup } from '../operations.ts';
import {
  Badge,
  Button,
  Card,
  CopyBlock,
  counted,
  EmptyState,
  Loaded,
  PageHead,
  Tabs,
  TimeText,
  To,
  type Tone,
  When,
} from '../parts/basic.tsx';
import { ClientSetup } from '../parts/client-setup.tsx';
import { ChangeDialog, Dialog } from '../parts/dialog.tsx';
import { SearchField, SelectField, TextField, useFields } from '../parts/field.tsx';
import { type Column, List } from '../parts/table.tsx';

const LIVES = [
  { value: String(30 * 86_400), text: '30 days' },
  { value: String(90 * 86_400), text: '90 days' },
  { value: String(365 * 86_400), text: 'a year' },
] as const;

/** How long a token that was replaced works on. */
const OVERLAPS = [
  { value: '86400', text: 'for a day' },
  { value: '3600', text: 'for an hour' },
  { value: '604800', text: 'for a week' },
  { value: '0', text: 'not at all: it leaked' },
] as const;

const TONES: Readonly<Record<string, Tone>> = {
  active: 'good',
  replaced: 'info',
  suspended: 'warn',
  unowned: 'warn',
  revoked: 'plain',
  expired: 'plain',
};

/** What a state means, where its word alone does not say. */
const STATE_WORDS: Readonly<Partial<Record<Token['state'], string>>> = {
  replaced: 'Works until it expires; another has taken its place.',
  suspended: 'Refused until its owner signs in again.',
};

/** Whether a token can still be replaced or ended. */
function isInForce({ state }: { state: string }): boolean {
  return state !== 'revoked' && state !== 'expired';
}

interface Changing<Any> {
  readonly token: Any;
  readonly what: 'rotate' | 'revoke';
}

/** The column with what can be done to each token that is in force. */
function actions<Token extends { readonly name: string; readonly state: string }>(
  onChange: (changing: Changing<Token>) => void,
): Column<Token> {
  return {
    id: 'do',
    title: 'Actions',
    cell: (token) =>
      isInForce(token) && (
        <span className="row-actions">
          {token.state !== 'replaced' && (
            <Button
              kind="quiet"
              aria-label={`Rotate ${token.name}`}
              onClick={() => onChange({ token, what: 'rotate' })}
            >
              Rotate
            </Button>
          )}
          <Button kind="quiet" aria-label={`Revoke ${token.name}`} onClick={() => onChange({ token, what: 'revoke' })}>
            Revoke
          </Button>
        </span>
      ),
  };
}

/** A token that has just been made, for the only time it is shown; one of a group with how clients are set up with it. */
function MadeDialog({ made, title, onClose }: { made: Made; title: string; onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title={title}>
      <p>
        <strong>Copy it now.</strong> It is shown this once, and kept nowhere.
      </p>
      <CopyBlock text={made.token} label="The new token" />
      {made.group !== undefined && <NextSteps group={made.group} />}
      <div className="row end">
        <Button kind="primary" onClick={onClose}>
          I have it
        </Button>
      </div>
    </Dialog>
  );
}

interface Made {
  readonly token: string;
  readonly name: string;
  readonly group?: string;
}

function NextSteps({ group }: { group: string }) {
  const { public_url } = useSession();
  const groups = useOperation('listTokenGroups', {});
  const [model] = groups.data?.token_groups.find(({ name }) => name === group)?.models ?? [];
  if (model === undefined) return null;
  return (
    <>
      <h3>Set up a client with it</h3>
      <ClientSetup base_url={public_url} model={model} credential="access-token" />
    </>
  );
}

interface TokenDialog {
  readonly token: Token | ServiceToken;
  readonly onClose: () => void;
}

const isOfModels = (token: Token | ServiceToken): token is Token => 'group' in token;

/** Puts a new token in the place of one, which works on for a while. */
function RotateDialog({ token, onClose }: TokenDialog) {
  const [{ overlap }, field] = useFields({ overlap: OVERLAPS[0].value });
  const [made, setMade] = useState<Made>();
  if (made !== undefined) {
    const title = isOfModels(token) ? `New token for ${made.name}` : `New token of ${made.name}`;
    return <MadeDialog made={made} title={title} onClose={onClose} />;
  }
  return (
    <ChangeDialog
      operation={isOfModels(token) ? 'rotateToken' : 'rotateServiceToken'}
      input={{ id: token.id, overlap_seconds: Number(overlap) }}
      done={(answer) => void setMade(answer)}
      onClose={onClose}
      title={isOfModels(token) ? `Rotate ${token.name}` : `Rotate the token of ${token.name}`}
      action="Make the new token"
    >
      <p>
        {isOfModels(token)
          ? 'A new token with the same owner, group, name and end takes the place of this one.'
          : 'A new token with the same name and rights takes its place, and you answer for it.'}
      </p>
      {isOfModels(token) && <Used token={token} />}
      <SelectField
        label="The old one works on"
        {...field('overlap')}
        options={OVERLAPS}
        hint="Long enough to bring the new one everywhere."
      />
    </ChangeDialog>
  );
}

/** Ends a token, and says what stops working. */
function RevokeDialog({ token, onClose }: TokenDialog) {
  const of_models = isOfModels(token);
  return (
    <ChangeDialog
      operation={of_models ? 'revokeToken' : 'revokeServiceToken'}
      input={{ id: token.id }}
      done={(answer) => {
        if (!of_models) return [`Revoked the token of ${token.name}.`];
        const others = 'also_revoked' in answer && answer.also_revoked.length > 0 ? ', and what it replaced' : '';
        return [`Revoked ${token.name} of ${token.user}${others}.`];
      }}
      onClose={onClose}
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
    </ChangeDialog>
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

const NEVER = { value: '', text: 'never' };

/** Makes an access token: what it is for, which models it opens, how long it lives; then shows it once. */
function CreateDialog({ group: wanted, onClose }: { group: string | undefined; onClose: () => void }) {
  const { person, sign_in } = useSession();
  const [made, setMade] = useState<Made & { readonly user: string }>();
  const groups = useOperation('listTokenGroups', {});
  const open = groups.data?.token_groups.filter(({ may_make }) => may_make) ?? [];
  const [{ name, chosen, life, ...other }, field] = useFields({
    name: '',
    chosen: wanted ?? '',
    life: LIVES[1].value,
    user: '',
    team: '',
    project: '',
  });
  const group = open.find((each) => each.name === chosen) ?? open[0];
  // Whoever came by the link of a command is nobody who could own a token.
  const must = sign_in === 'link';
  if (made !== undefined) {
    const title = made.user === person.email ? 'Your new token' : `New token of ${made.user}`;
    return <MadeDialog made={made} title={title} onClose={onClose} />;
  }
  return (
    <ChangeDialog
      operation="createToken"
      input={{
        name,
        group: group?.name,
        expires_in_seconds: life === '' ? undefined : Number(life),
        ...Object.fromEntries(Object.entries(other).filter(([, said]) => said.trim() !== '')),
      }}
      done={(answer) => void setMade(answer)}
      onClose={onClose}
      title="Create a token"
      action="Create the token"
    >
      <TextField
        label="What is it for?"
        hint="Such as the device it will live on: laptop."
        required
        maxLength={120}
        autoComplete="off"
        {...field('name')}
      />
      {open.length > 0 && (
        <SelectField
          label="Token group"
          {...field('chosen')}
          value={group?.name ?? ''}
          options={open.map((each) => ({ value: each.name, text: each.name }))}
          hint={
            group === undefined || group.models.length === 0 ? 'Opens no model.' : `Opens ${group.models.join(', ')}.`
          }
        />
      )}
      <SelectField
        label="Expires"
        {...field('life')}
        options={[...LIVES.map(({ value, text }) => ({ value, text: `after ${text}` })), NEVER]}
      />
      {person.is_admin && (
        <details className="tokens-other" open={must || undefined}>
          <summary>{must ? 'Whose it is' : 'For somebody else, a team or a project'}</summary>
          <div className="stack">
            <TextField
              label="Owner"
              type="email"
              required={must}
              autoComplete="off"
              placeholder={must ? undefined : person.email}
              {...field('user')}
              hint="A person, or the address of a machine such as ci@example.com. Somebody who has not signed in yet is let in under People afterwards."
            />
            <TextField label="Team whose limits it shares" autoComplete="off" {...field('team')} />
            <TextField label="Project" autoComplete="off" {...field('project')} />
          </div>
        </details>
      )}
    </ChangeDialog>
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
function CreateServiceToken({ onClose }: { onClose: () => void }) {
  const [made, setMade] = useState<Made>();
  const [{ name, life }, field] = useFields({ name: '', life: LIVES[1].value });
  const [scopes, setScopes] = useState<readonly ServiceScope[]>([]);
  if (made !== undefined) return <MadeDialog made={made} title={`New token of ${made.name}`} onClose={onClose} />;
  return (
    <ChangeDialog
      operation="createServiceToken"
      input={{ name, scopes, expires_in_seconds: Number(life) }}
      done={(answer) => void setMade(answer)}
      onClose={onClose}
      title="Create a service token"
      action="Create the token"
    >
      <TextField
        label="Which program is it for?"
        required
        maxLength={80}
        autoComplete="off"
        {...field('name')}
        hint="Such as the nightly cost report."
      />
      <fieldset className="tokens-scopes stack near">
        <legend>What may it do?</legend>
        {(Object.keys(SCOPES) as ServiceScope[]).map((scope) => (
          <label key={scope}>
            <input
              type="checkbox"
              checked={scopes.includes(scope)}
              onChange={({ target }) =>
                setScopes(target.checked ? [...scopes, scope] : scopes.filter((each) => each !== scope))
              }
            />
            {SCOPES[scope]} <code className="soft small">{scope}</code>
          </label>
        ))}
      </fieldset>
      <SelectField
        label="Expires"
        {...field('life')}
        options={LIVES.map(({ value, text }) => ({ value, text: `after ${text}` }))}
      />
    </ChangeDialog>
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
            <ul className="tokens-groups bare any">
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
    <li className="stack framed flush">
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

type State = NonNullable<InputOf<'listTokens'>['state']>;
const STATES: readonly { readonly value: State | 'all'; readonly text: string }[] = [
  { value: 'in_force', text: 'in force' },
  { value: 'active', text: 'active' },
  { value: 'suspended', text: 'suspended' },
  { value: 'replaced', text: 'replaced, still working' },
  { value: 'expired', text: 'expired' },
  { value: 'revoked', text: 'revoked' },
  { value: 'all', text: 'all' },
];
const PAGE = 50;

/** Access tokens, the newest first, narrowed by what the address says. */
function TokenList() {
  const [search] = usePageSearch();
  const { is_admin } = useSession().person;
  const asked = STATES.find(({ value }) => value === search.state)?.value ?? 'in_force';
  const query = useOperation('listTokens', {
    order: 'newest',
    limit: PAGE,
    user: search.user,
    group: search.group,
    search: search.search,
    state: asked === 'all' ? undefined : asked,
    after: search.after,
  });
  const [changing, setChanging] = useState<Changing<Token> | undefined>();
  const columns = useMemo(() => [...columnsFor(is_admin), actions(setChanging)], [is_admin]);
  const is_narrowed = [search.user, search.group, search.search].some(Boolean) || asked !== 'in_force';
  return (
    <Card title={is_admin ? 'Access tokens' : 'Your tokens'}>
      <Filters state={asked} />
      <List
        query={query}
        rows={({ tokens }) => tokens}
        turn="after"
        label="Access tokens"
        columns={columns}
        empty={<Nothing is_narrowed={is_narrowed} />}
      />
      {/* Not in the table: what they do may empty it, and a new token is shown once. */}
      <Changed changing={changing} onClose={() => setChanging(undefined)} />
    </Card>
  );
}

function Changed({ changing, onClose }: { changing: Changing<Token | ServiceToken> | undefined; onClose: () => void }) {
  if (changing === undefined) return null;
  const Shown = changing.what === 'rotate' ? RotateDialog : RevokeDialog;
  return <Shown token={changing.token} onClose={onClose} />;
}

function Nothing({ is_narrowed }: { is_narrowed: boolean }) {
  const [, change] = usePageSearch();
  if (is_narrowed) {
    return (
      <EmptyState title="No token is like that">
        <Button kind="quiet" onClick={() => change(NO_FILTERS)}>
          Show all that are in force
        </Button>
      </EmptyState>
    );
  }
  return <EmptyState title="There are no tokens yet">Create one for each device or purpose.</EmptyState>;
}

const NO_FILTERS = { user: undefined, group: undefined, search: undefined, state: undefined, after: undefined };

function Filters({ state }: { state: string }) {
  const [search, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const groups = useOperation('listTokenGroups', {});
  const names = groups.data?.token_groups.map(({ name }) => name) ?? [];
  const all = search.group === undefined || names.includes(search.group) ? names : [...names, search.group];
  return (
    <search className="filters">
      <SearchField
        label={is_admin ? 'Name, owner or id' : 'Name or id'}
        value={search.user ?? search.search ?? ''}
        onSet={(text) => change({ search: text, user: undefined, after: undefined })}
      />
      <SelectField
        label="Group"
        value={search.group ?? ''}
        options={[{ value: '', text: 'all' }, ...all.map((name) => ({ value: name, text: name }))]}
        onChange={({ target }) => change({ group: target.value, after: undefined })}
      />
      <SelectField
        label="State"
        value={state}
        options={STATES}
        onChange={({ target }) => change({ state: target.value, after: undefined })}
      />
    </search>
  );
}

function columnsFor(is_admin: boolean): Column<Token>[] {
  const owner: Column<Token> = {
    id: 'user',
    title: 'Owner',
    cell: ({ user, self_service, created_by }) => (
      <>
        <To page={['/people', { user }]}>{user}</To>
        {!self_service && <span className="line soft small">made by {created_by}</span>}
      </>
    ),
  };
  return [
    {
      id: 'name',
      title: 'Name',
      cell: ({ id, name, prefix }) => (
        <>
          <To page={['/requests', { token: id }]} title="Its requests">
            {name}
          </To>
          <code className="line soft small">{prefix}…</code>
        </>
      ),
    },
    ...(is_admin ? [owner] : []),
    { id: 'group', title: 'Group', cell: ({ group }) => group },
    { id: 'state', title: 'State', cell: (token) => <StateCell token={token} /> },
    { id: 'used', title: 'Last used', cell: ({ last_used_at }) => <When at={last_used_at} /> },
    { id: 'expires', title: 'Expires', cell: ({ expires_at }) => <When at={expires_at} /> },
  ];
}

function StateCell({ token: { state, suspends_at } }: { token: Token }): ReactNode {
  return (
    <>
      <Badge tone={TONES[state] ?? 'plain'}>{state}</Badge>
      {STATE_WORDS[state] !== undefined && <span className="line soft small">{STATE_WORDS[state]}</span>}
      {suspends_at !== null && (
        <span className="line soft small">
          is suspended <TimeText at={suspends_at} form="relative" /> unless its owner signs in
        </span>
      )}
    </>
  );
}

function ServiceTokens({ is_creating, onCreated }: { is_creating: boolean; onCreated: () => void }) {
  const [changing, setChanging] = useState<Changing<ServiceToken> | undefined>();
  const columns = useMemo(() => [...COLUMNS, actions(setChanging)], []);
  return (
    <Card title="Service tokens">
      <List
        query={useOperation('listServiceTokens', {})}
        rows={({ service_tokens }) => service_tokens}
        label="Service tokens"
        columns={columns}
        empty={
          <EmptyState title="There are no service tokens yet">
            A program that reads usage or makes tokens gets one of its own, with no more rights than it needs.
          </EmptyState>
        }
      />
      {is_creating && <CreateServiceToken onClose={onCreated} />}
      <Changed changing={changing} onClose={() => setChanging(undefined)} />
    </Card>
  );
}

const COLUMNS: readonly Column<ServiceToken>[] = [
  {
    id: 'name',
    title: 'Program',
    cell: ({ name, prefix }) => (
      <>
        {name}
        <code className="line soft small">{prefix}…</code>
      </>
    ),
  },
  { id: 'scopes', title: 'May', cell: ({ scopes }) => scopes.join(', ') },
  { id: 'owner', title: 'Answers for it', cell: ({ owner, created_by }) => owner ?? created_by },
  {
    id: 'state',
    title: 'State',
    cell: ({ state }) => (
      <>
        <Badge tone={TONES[state] ?? 'plain'}>{state}</Badge>
        {state === 'unowned' && (
          <span className="line soft small">Its owner is no administrator any more; rotate it to take it over.</span>
        )}
      </>
    ),
  },
  { id: 'used', title: 'Last used', cell: ({ last_used_at }) => <When at={last_used_at} /> },
  { id: 'expires', title: 'Expires', cell: ({ expires_at }) => <TimeText at={expires_at} form="relative" /> },
];

/** Access tokens per group, and for administrators the service tokens of programs. */
export function Page() {
  const [search, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const is_service = is_admin && search.tab === 'service';
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
        <ServiceTokens is_creating={search.create !== undefined} onCreated={() => change({ create: undefined })} />
      ) : (
        <>
          <TokenGroups />
          <TokenList />
          {search.create !== undefined && (
            <CreateDialog group={search.group} onClose={() => change({ create: undefined })} />
          )}
        </>
      )}
    </>
  );
}
