import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { type InputOf, type PageSearch, useOperation, usePageSearch, useSession } from '../api.ts';
import type { CountedLimit, Grant, LimitInForce, LimitRule, WrittenLimit } from '../operations.ts';
import {
  Badge,
  Button,
  Card,
  CopyBlock,
  counted,
  EmptyState,
  Icon,
  Loaded,
  longTime,
  Meter,
  PageHead,
  ProblemBox,
  Skeleton,
  TimeText,
  To,
  type Tone,
} from '../parts/basic.tsx';
import { ChangeDialog, Dialog } from '../parts/dialog.tsx';
import { SelectField, TextField, useFields } from '../parts/field.tsx';
import { type Column, List } from '../parts/table.tsx';
import {
  amountsWords,
  amountWords,
  bareAmount,
  type Counter,
  counterId,
  counterOf,
  counterWords,
  howMany,
  SCOPES,
  type Scope,
  whoseWords,
  windowWords,
} from './limit-words.ts';

/** One counter: how much of its limit is used, how long it lasts, and where the limit comes from. */
function CounterCard({ limit, actions }: { limit: LimitInForce; actions?: ReactNode }) {
  const whose = useWhose(limit);
  return (
    <article className="limits-counter stack framed flush" aria-label={`${whose} ${windowWords(limit.window)}`}>
      <header className="row spread any">
        <h3>
          {whose} <span className="soft">{windowWords(limit.window)}</span>
        </h3>
        <OutcomeBadge limit={limit} />
      </header>
      <Used limit={limit} label="Used" />
      <p className="soft small">
        {limit.resets_at === null ? (
          'Counts only what is under way.'
        ) : (
          <>
            Resets <TimeText at={limit.resets_at} form="relative" />, <TimeText at={limit.resets_at} form="long" />.
          </>
        )}{' '}
        {limit.forecast?.outcome !== 'none_left' && limit.forecast?.words}
        <Reserved limit={limit} />
      </p>
      <Origin limit={limit} />
      <div className="limits-actions row">
        {actions}
        <UsageLink limit={limit} />
      </div>
    </article>
  );
}

/** The limit's owner, to whoever looks: `You`, `Your team search`, or a name. */
function useWhose({ of }: LimitInForce): string {
  const { person } = useSession();
  const names = whoseWords(of);
  if (of.user !== person.email) return names;
  const { user: _you, ...others } = of;
  return Object.keys(others).length === 0 ? 'You' : `You, ${whoseWords(others)}`;
}

/** Leads to what was spent in the window; a developer sees what they spent themselves. */
function UsageLink({ limit: { of, window, unit, resets_at } }: { limit: LimitInForce }) {
  const { person, time_zone } = useSession();
  const is_own = of.user === person.email;
  if (unit !== 'usd' || resets_at === null || !(person.is_admin || is_own)) return null;
  return (
    <To
      page={[
        '/usage',
        { ...of, ...rangeOf(window, resets_at, time_zone), by: of.model === undefined ? 'model' : 'day' },
      ]}
      className="button quiet"
      aria-label={`Usage of ${counterWords({ of, window })}`}
    >
      Usage
    </To>
  );
}

/** The window as the page of usage has it in its address. */
function rangeOf(window: LimitInForce['window'], resets_at: string, time_zone: string) {
  if (window === 'day') return { range: 'today' };
  if (window === 'month') return { range: 'month' };
  // Noon of the first day, however long the days since were.
  const noon = new Date(Date.parse(resets_at) - 6.5 * 86_400_000);
  return { since: noon.toLocaleDateString('en-CA', { timeZone: time_zone }) };
}

/** A bar of what is used, with the amounts in words. */
function Used({ limit, label }: { limit: LimitInForce; label: string }) {
  const { unit, spent, reserved, room, in_flight, window } = limit;
  const used = window === 'open' ? in_flight : spent;
  if (limit.limit === null) {
    const is_for_some = limit.rules.some(({ mode }) => mode === 'enforce');
    return (
      <p>
        {amountWords(used, unit)}, {is_for_some ? 'limited for some requests.' : 'without a limit.'}
      </p>
    );
  }
  const left = room === 0 ? 'nothing' : bareAmount(room ?? 0, unit);
  const words = `${bareAmount(used, unit)} of ${amountWords(limit.limit, unit)}, ${left} left`;
  const taken = window === 'open' ? in_flight : spent + reserved;
  return <Meter label={label} share={limit.limit === 0 ? 1 : taken / limit.limit} words={words} />;
}

/** What running requests keep aside; it comes back where they cost less. */
function Reserved({ limit: { reserved, in_flight, unit, window } }: { limit: LimitInForce }) {
  if (reserved === 0 || window === 'open') return null;
  return ` ${amountWords(reserved, unit)} are reserved by ${counted(in_flight, 'request')} in flight.`;
}

const OUTCOMES: Readonly<Record<'none_left' | 'ends', readonly [Tone, string]>> = {
  none_left: ['alarm', 'Nothing left'],
  ends: ['warn', 'Ends before it resets'],
};

/** Whether something needs looking at, in two words. */
function OutcomeBadge({ limit: { forecast, room } }: { limit: LimitInForce }) {
  const outcome = room === 0 ? 'none_left' : forecast?.outcome;
  if (outcome === undefined || outcome === 'lasts') return null;
  const [tone, words] = OUTCOMES[outcome];
  return <Badge tone={tone}>{words}</Badge>;
}

/** Where a limit comes from: rules of gateway.yaml, what was set in their place, what was granted on top. */
function Origin({ limit: { rules, set, grants, unit, counted } }: { limit: LimitInForce }) {
  return (
    <ul className="limits-origin small any">
      {!counted && <li>No limit of gateway.yaml counts this: what is set or granted has no effect.</li>}
      {set !== null && (
        <li>
          Set to {amountWords(set.limit, unit)}
          {set.set_by !== null && ` by ${set.set_by}`}, <TimeText at={set.set_at} />
          <Because reason={set.reason} />
        </li>
      )}
      {grants.map(({ id, amount, granted_by, expires_at, reason }) => (
        <li key={id}>
          Plus {amountWords(amount, unit)} until <TimeText at={expires_at} form="long" />, granted
          {granted_by === null ? ' at run time' : ` by ${granted_by}`}
          <Because reason={reason} />
        </li>
      ))}
      {rules.map(({ rule, limit, by_group, mode, always, condition }) => (
        <li key={rule} className={set !== null && mode === 'enforce' ? 'limits-replaced' : undefined}>
          {amountsWords({ limit, by_group }, unit)} by <code>{rule}</code>
          {mode === 'shadow' && ', only reported'}
          {mode === 'enforce' && set !== null ? (
            ', replaced by what was set'
          ) : (
            <ForWhich always={always || limit === null || by_group !== null} condition={condition} />
          )}
        </li>
      ))}
    </ul>
  );
}

function ForWhich({ always, condition }: { always: boolean; condition: string | null }) {
  if (condition === null) return always ? null : ', for some requests';
  return (
    <>
      , for requests where <code>{condition}</code>
    </>
  );
}

function Because({ reason }: { reason: string | null }) {
  return reason === null ? '.' : `: ${reason}`;
}

/** Whose limits an address asks for. */
function scopesIn(search: PageSearch): Partial<Record<Scope, string>> {
  return Object.fromEntries(SCOPES.flatMap(({ scope }) => (search[scope] ? [[scope, search[scope]]] : [])));
}

const CLEARED = Object.fromEntries(SCOPES.map(({ scope }) => [scope, undefined]));

/** Looks for the limits of one person, team or whatever is counted. */
function Finder() {
  const [search] = usePageSearch();
  const found = SCOPES.find(({ scope }) => search[scope])?.scope;
  const text = found && (search[found] ?? '');
  // Who comes back by the address or the browser's buttons finds the fields as they were.
  return <FinderForm key={`${found} ${text}`} scope={found ?? 'user'} text={text ?? ''} />;
}

function FinderForm(given: { scope: Scope; text: string }) {
  const [, change] = usePageSearch();
  const [{ scope, text }, field] = useFields<string>({ scope: given.scope, text: given.text });
  const clear = () => change({ ...CLEARED, grants_after: undefined });
  const find = (event: FormEvent) => {
    event.preventDefault();
    change({ ...CLEARED, [scope!]: text!.trim(), grants_after: undefined });
  };
  return (
    <form className="filters" role="search" aria-label="Look for limits" onSubmit={find}>
      <SelectField
        label="Limits of a"
        {...field('scope')}
        options={SCOPES.map((each) => ({ value: each.scope, text: each.one }))}
      />
      <TextField
        label={scope === 'user' ? 'E-mail address' : scope === 'token' ? 'Id' : 'Name'}
        required
        autoComplete="off"
        {...field('text')}
      />
      <Button type="submit">Show</Button>
      {given.text !== '' && (
        <Button kind="quiet" onClick={clear}>
          Show all
        </Button>
      )}
    </form>
  );
}

const TONES: Readonly<Record<Grant['state'], Tone>> = { active: 'good', revoked: 'plain', expired: 'plain' };

const COLUMNS: readonly Column<Grant>[] = [
  { id: 'whose', title: 'For', cell: counterWords },
  { id: 'amount', title: 'More', cell: ({ amount, unit }) => amountWords(amount, unit) },
  { id: 'why', title: 'Why', cell: ({ reason }) => reason ?? <span className="soft">no reason given</span> },
  { id: 'by', title: 'By', cell: ({ granted_by }) => granted_by ?? 'an administrator' },
  {
    id: 'until',
    title: 'Until',
    cell: ({ expires_at, revoked_at }) => <TimeText at={revoked_at ?? expires_at} />,
  },
];
const STATE: Column<Grant> = {
  id: 'state',
  title: 'State',
  cell: ({ state }) => <Badge tone={TONES[state]}>{state}</Badge>,
};

/** Grants, the newest first: who gave what to whom, why and until when. */
function Grants({ of }: { of: Partial<Record<Scope, string>> }) {
  const [{ ended, grants_after }, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const [leaving, setLeaving] = useState<Grant | undefined>();
  const is_all = ended === 'true';
  const query = useOperation('listGrants', { ...of, ended: is_all ? 'true' : 'false', limit: 25, after: grants_after });
  const revoke: Column<Grant> = {
    id: 'do',
    title: 'Actions',
    cell: (grant) =>
      grant.state === 'active' ? (
        <span className="row-actions">
          <Button
            kind="quiet"
            onClick={() => setLeaving(grant)}
            aria-label={`Revoke the grant for ${whoseWords(grant.of)}`}
          >
            Revoke
          </Button>
        </span>
      ) : null,
  };
  const columns = [...COLUMNS, ...(is_all ? [STATE] : []), ...(is_admin ? [revoke] : [])];
  const toggle = (
    <label className="row small">
      <input
        type="checkbox"
        checked={is_all}
        onChange={({ target }) => change({ ended: target.checked ? 'true' : undefined, grants_after: undefined })}
      />
      Show ended ones, too
    </label>
  );
  return (
    <Card title="Grants" actions={toggle}>
      <List
        query={query}
        rows={({ grants }) => grants}
        turn="grants_after"
        lines={3}
        label="Grants"
        columns={columns}
        empty={
          <EmptyState title={is_all ? 'Nothing was granted yet' : 'Nothing is granted now'}>
            A grant is room on top of a limit, for a time.
          </EmptyState>
        }
      />
      {leaving !== undefined && <RevokeGrant grant={leaving} onClose={() => setLeaving(undefined)} />}
    </Card>
  );
}

function RevokeGrant({ grant, onClose }: { grant: Grant; onClose: () => void }) {
  const { id, of, window, unit, amount, granted_by, reason, expires_at } = grant;
  return (
    <ChangeDialog
      operation="revokeGrant"
      input={{ id }}
      done={({ now }) => {
        const left = now.room === null ? 'nothing limits it' : `${amountWords(now.room, unit)} are left`;
        return [`Revoked ${amountWords(amount, unit)} for ${counterWords(grant)}: ${left} now.`];
      }}
      onClose={onClose}
      title={`Revoke the grant for ${whoseWords(of)}`}
      action={`Revoke ${amountWords(amount, unit)}`}
      kind="danger"
    >
      <p>
        {granted_by} granted {amountWords(amount, unit)} more {windowWords(window)} until{' '}
        <TimeText at={expires_at} form="long" />
        {reason === null ? '' : `: ${reason}`}. The next request goes without it, and is refused where that much is
        spent.
      </p>
    </ChangeDialog>
  );
}

type Children = (limits: readonly LimitInForce[], written: readonly WrittenLimit[]) => ReactNode;

function Limits({
  title,
  of = {},
  children,
}: {
  title: string;
  of?: Partial<Record<Scope, string>>;
  children: Children;
}) {
  const query = useOperation('listLimits', of, { every_seconds: 15 });
  return (
    <Card title={title}>
      <Loaded query={query}>{({ limits, written }) => children(limits, written)}</Loaded>
    </Card>
  );
}

/** Every limit of somebody or something; without anybody named, of whoever looks. */
function Own({ of }: { of: Partial<Record<Scope, string>> }) {
  return (
    <Limits title={Object.keys(of).length === 0 ? 'Yours' : whoseWords(of)} of={of}>
      {(limits, written) => (
        <>
          <LimitList limits={limits}>
            {written.length === 0 && (
              <EmptyState title="Nothing is counted here yet">
                Nothing was spent in this window, and no limit is for it.
              </EmptyState>
            )}
          </LimitList>
          <AlsoWritten written={written} />
        </>
      )}
    </Limits>
  );
}

/** The limits of gateway.yaml that the same requests come under, and that count by something else. */
function AlsoWritten({ written }: { written: readonly WrittenLimit[] }) {
  if (written.length === 0) return null;
  return (
    <>
      <h3>Also for these requests</h3>
      <ul className="limits-origin small any">
        {written.map(({ rule, scope, window, unit, limit, by_group, mode, always, condition }) => (
          <li key={`${rule} ${window} ${unit}`}>
            {amountsWords({ limit, by_group }, unit)} for each {scope.replace('+rule', '').replaceAll('+', ' and ')}{' '}
            {windowWords(window)} by <code>{rule}</code>
            {mode === 'shadow' && ', only reported'}
            <ForWhich always={always || limit === null || by_group !== null} condition={condition} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Nearest() {
  const [is_long, setLong] = useState(false);
  return (
    <Limits title="Nearest to their end">
      {(limits) => {
        const nearest = limits.filter(isUsed).toSorted((a, b) => usedShare(b) - usedShare(a));
        return (
          <>
            <LimitList limits={is_long ? nearest : nearest.slice(0, SHOWN)}>
              <EmptyState title="Nothing that is limited was spent yet">
                Requests count here as soon as there are some.
              </EmptyState>
            </LimitList>
            {nearest.length > SHOWN && (
              <div className="limits-actions row">
                <Button kind="quiet" onClick={() => setLong(!is_long)}>
                  {is_long ? 'Show fewer' : `Show all ${nearest.length}`}
                </Button>
              </div>
            )}
          </>
        );
      }}
    </Limits>
  );
}

const SHOWN = 6;

/** The counters whose limit was set, or that have room granted. */
function Changed() {
  return (
    <Limits title="Changed by hand">
      {(limits) => (
        <LimitList limits={limits.filter(isChanged)}>
          <EmptyState title="Everything is as gateway.yaml says">No limit was set, and nothing is granted.</EmptyState>
        </LimitList>
      )}
    </Limits>
  );
}

function isUsed({ limit, spent, reserved }: LimitInForce): boolean {
  return limit !== null && spent + reserved > 0;
}

function usedShare({ limit, spent, reserved }: LimitInForce): number {
  // A limit of nothing is used up.
  return limit === null || limit === 0 ? Number.POSITIVE_INFINITY : (spent + reserved) / limit;
}

function isChanged({ set, grants }: LimitInForce): boolean {
  return set !== null || grants.length > 0;
}

function LimitList({ limits, children }: { limits: readonly LimitInForce[]; children: ReactNode }) {
  const { is_admin } = useSession().person;
  const [changing, setChanging] = useState<{ limit: LimitInForce; what: 'set' | 'clear' } | undefined>();
  const close = () => setChanging(undefined);
  // The dialogs stay where the change that they make empties the list.
  return (
    <>
      {limits.length === 0 && children}
      <div className="limits-counters">
        {limits.map((limit) => (
          <CounterCard
            key={counterId(limit)}
            limit={limit}
            actions={
              is_admin ? (
                <AdminActions limit={limit} onChange={(what) => setChanging({ limit, what })} />
              ) : (
                <AskAction limit={limit} />
              )
            }
          />
        ))}
      </div>
      {changing?.what === 'set' && <SetDialog limit={changing.limit} onClose={close} />}
      {changing?.what === 'clear' && <ClearDialog limit={changing.limit} onClose={close} />}
    </>
  );
}

function AdminActions({ limit, onChange }: { limit: LimitInForce; onChange: (what: 'set' | 'clear') => void }) {
  const [, change] = usePageSearch();
  const whose = counterWords(limit);
  return (
    <>
      <Button aria-label={`Give a grant for ${whose}`} onClick={() => change({ grant: counterId(limit) })}>
        Give a grant
      </Button>
      <Button kind="quiet" aria-label={`Set the limit of ${whose}`} onClick={() => onChange('set')}>
        Set the limit
      </Button>
      {limit.set !== null && (
        <Button kind="quiet" aria-label={`Take back the limit of ${whose}`} onClick={() => onChange('clear')}>
          Take back
        </Button>
      )}
    </>
  );
}

function AskAction({ limit }: { limit: LimitInForce }) {
  const [, change] = usePageSearch();
  if (limit.limit === null) return null;
  return (
    <Button aria-label={`Ask for more of ${counterWords(limit)}`} onClick={() => change({ ask: counterId(limit) })}>
      Ask for more
    </Button>
  );
}

/** The limits of gateway.yaml in words, with what they count and refused today. */
function Rules() {
  const query = useOperation('listLimitRules', {}, { every_seconds: 30 });
  return (
    <Card title="Rules">
      <Loaded query={query} lines={6}>
        {({ rules, since }) =>
          rules.length === 0 ? (
            <EmptyState title="There are no limits yet">
              <p>
                Write one into gateway.yaml, such as <code>spend_limits: {'{ defaults: { user_daily_usd: 50 } }'}</code>
                . Everything is counted without one, too.
              </p>
            </EmptyState>
          ) : (
            <ul className="bare ruled any">
              {rules.map((rule) => (
                <Rule key={rule.rule} rule={rule} since={since} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

function Rule({ rule, since }: { rule: LimitRule; since: string }) {
  return (
    <li className="stack near flush">
      <div className="row spread">
        <p>
          <To page={['/config', { rule: rule.rule }]}>{rule.rule}</To>
        </p>
        {rule.mode === 'shadow' && <Badge tone="info">Only reported</Badge>}
      </div>
      {rule.limits.map((limit) => (
        <p key={limit.words}>
          <strong>{limit.words}</strong>
          <Counted limit={limit} />
        </p>
      ))}
      {rule.condition !== null && (
        <p className="small">
          where <code>{rule.condition}</code>
        </p>
      )}
      <Refused rule={rule} since={since} />
    </li>
  );
}

const WHEN = { day: 'today', week: 'this week', month: 'this month', minute: 'this minute', open: 'now' } as const;
/** Ranges of the usage page for windows it has a name for. */
const RANGES: Readonly<Partial<Record<CountedLimit['window'], string>>> = { day: 'today', month: 'month' };

/** How many a limit counts, and for how many it is nearly or wholly used. */
function Counted({ limit: { scope, window, unit, counted, nearly_none, none_left } }: { limit: CountedLimit }) {
  if (counted === 0) return <span className="soft"> · none {WHEN[window]}</span>;
  const range = unit === 'usd' ? RANGES[window] : undefined;
  const words = `${howMany(counted, scope)} ${WHEN[window]}`;
  const parts = [
    ...(nearly_none > 0 ? [`${nearly_none} nearly at the end`] : []),
    ...(none_left > 0 ? [`${none_left} with nothing left`] : []),
  ];
  return (
    <span className="soft">
      {' · '}
      {range === undefined ? words : <To page={['/usage', { by: scope.replaceAll('+', ','), range }]}>{words}</To>}
      {parts.map((part) => `, ${part}`)}
    </span>
  );
}

function Refused({ rule, since }: { rule: LimitRule; since: string }) {
  const { mode, refused, refused_people, would_refuse } = rule;
  if (mode === 'shadow') {
    if (would_refuse === 0) return <p className="soft small">It would have refused nothing today.</p>;
    return <p className="small">It would have refused {counted(would_refuse, 'request')} today.</p>;
  }
  if (refused === 0) return null;
  const error = rule.limits[0]?.unit === 'usd' ? 'spend_limit_exceeded' : 'rate_limit_exceeded';
  return (
    <p className="small">
      Refused {counted(refused, 'request')} of {howMany(refused_people, 'user')} today.{' '}
      <To page={['/requests', { error, since }]}>See what such limits refused</To>
    </p>
  );
}

/** Limits: rules in words, what is nearest to its end, what was set and granted; for developers their own. */
export function Page() {
  const { is_admin } = useSession().person;
  return is_admin ? <AdminPage /> : <OwnPage />;
}

function AdminPage() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const of = scopesIn(search);
  const is_narrowed = Object.keys(of).length > 0;
  return (
    <>
      <PageHead
        title="Limits"
        intro={`What may be spent, what is left, and who was given more. Days begin at midnight, ${time_zone}.`}
      >
        <Button kind="primary" onClick={() => change({ grant: 'new' })}>
          Give a grant
        </Button>
      </PageHead>
      <Finder />
      {is_narrowed ? <Own of={of} /> : <Nearest />}
      {!is_narrowed && <Rules />}
      {!is_narrowed && <Changed />}
      <Grants of={of} />
      {search.grant !== undefined && (
        <GrantDialog
          key={search.grant}
          given={counterOf(search.grant)}
          amount={search.amount ?? ''}
          onClose={() => change({ grant: undefined, amount: undefined })}
        />
      )}
    </>
  );
}

function OwnPage() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const asked = counterOf(search.ask ?? '');
  return (
    <>
      <PageHead title="Limits" intro={`What you may spend, and what is left. Days begin at midnight, ${time_zone}.`} />
      <Own of={{}} />
      <Grants of={{}} />
      {asked !== undefined && <AskDialog counter={asked} onClose={() => change({ ask: undefined })} />}
    </>
  );
}

const LATE_MS = 250;

/** A value once it has stayed the same for a moment, so that not every key that is pressed asks the gateway. */
function useLate<Value>(value: Value): Value {
  const [late, setLate] = useState(value);
  const text = JSON.stringify(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(text === undefined ? (undefined as Value) : JSON.parse(text)), LATE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return late;
}

interface Kind extends Pick<Counter, 'window' | 'unit'> {
  readonly scope: string;
}

/** Counted whatever gateway.yaml limits. */
const ALWAYS: readonly Kind[] = [
  { scope: 'user', window: 'day', unit: 'usd' },
  { scope: 'team', window: 'month', unit: 'usd' },
];
const LABELS: Readonly<Record<Scope, string>> = {
  user: 'E-mail address',
  team: 'Team',
  project: 'Project',
  token: 'Id of the access token',
  model: 'Id of the model',
  upstream: 'Upstream',
  rule: 'Rule that counts only what it is for',
};
const UNITS = { usd: 'USD', requests: 'Requests', tokens: 'Tokens' } as const;

/** Asks which counter is meant: of what gateway.yaml counts, and whose. */
function ChooseCounter({ onChoose }: { onChoose: (counter: Counter | undefined) => void }) {
  const rules = useOperation('listLimitRules', {});
  const written = [...ALWAYS, ...(rules.data?.rules.flatMap(({ limits }) => limits) ?? [])];
  const kinds = distinct([...written, ...written.flatMap(withinShared)]);
  const [chosen, setChosen] = useState(idOf(ALWAYS[0]!));
  const [keys, setKeys] = useState<Partial<Record<Scope, string>>>({});
  const { scope, window, unit } = kinds.find((each) => idOf(each) === chosen) ?? ALWAYS[0]!;
  const scopes = scope.split('+') as Scope[];
  const people_id = useId();
  const typed = useLate(keys.user?.trim() || undefined);
  const people = useOperation('listPeople', { search: typed, limit: 10 }, { enabled: typed !== undefined });
  const said = scopes.map((each) => keys[each]?.trim() ?? '');
  const is_whole = said.every((key) => key !== '');
  const text = JSON.stringify(said);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chosen kind and the text of its keys say all that matters
  useEffect(() => {
    const of = Object.fromEntries(scopes.map((each, i) => [each, said[i]]));
    onChoose(is_whole ? { of, window, unit } : undefined);
  }, [chosen, text]);
  return (
    <>
      <SelectField
        label="Which limit"
        value={idOf({ scope, window, unit })}
        onChange={(event) => setChosen(event.target.value)}
        options={kinds.map((kind) => ({ value: idOf(kind), text: kindWords(kind) }))}
      />
      {scopes.map((each) => (
        <TextField
          key={each}
          label={LABELS[each]}
          type={each === 'user' ? 'email' : 'text'}
          required
          autoComplete="off"
          list={each === 'user' ? people_id : undefined}
          value={keys[each] ?? ''}
          onChange={(event) => setKeys({ ...keys, [each]: event.target.value })}
        />
      ))}
      <datalist id={people_id}>
        {people.data?.people.map(({ email }) => (
          <option key={email} value={email} />
        ))}
      </datalist>
    </>
  );
}

/** What one person can be granted within a limit that several share. */
function withinShared(kind: Kind): Kind[] {
  const scopes = kind.scope.split('+');
  return scopes.includes('user') || scopes.includes('token') ? [] : [{ ...kind, scope: `user+${kind.scope}` }];
}

function kindWords({ scope, window, unit }: Kind): string {
  const who = scope.split('+').map((each) => (each === 'user' ? 'person' : each));
  return `${UNITS[unit]} of one ${who.join(' and ')}, ${windowWords(window)}`;
}

function idOf({ scope, window, unit }: Kind): string {
  return `${scope} ${window} ${unit}`;
}

function distinct(kinds: readonly Kind[]): readonly Kind[] {
  return [...new Map(kinds.map((kind) => [idOf(kind), kind])).values()];
}

const HOUR_SECONDS = 3600;
const DAY_SECONDS = 24 * HOUR_SECONDS;
const SPANS = [
  { value: 'reset', text: 'until it resets' },
  { value: String(HOUR_SECONDS), text: 'for an hour' },
  { value: String(DAY_SECONDS), text: 'for a day' },
  { value: String(3 * DAY_SECONDS), text: 'for 3 days' },
  { value: String(7 * DAY_SECONDS), text: 'for a week' },
  { value: String(30 * DAY_SECONDS), text: 'for 30 days' },
];

const amountField = (unit: Counter['unit']) => ({
  inputMode: 'decimal' as const,
  required: true,
  pattern: unit === 'usd' ? ' *[0-9]{1,7}([.][0-9]{1,9})? *' : ' *[0-9]{1,12} *',
  title: 'Digits, such as 20',
  autoComplete: 'off',
});
const REASON = {
  label: 'Why',
  required: true,
  maxLength: 200,
  autoComplete: 'off',
  hint: 'Kept in the list of changes, for whoever asks later.',
};

/** Gives room on top of a limit: to whom, how much, until when and why; what it changes is shown before. */
function GrantDialog({ given, amount, onClose }: { given: Counter | undefined; amount: string; onClose: () => void }) {
  const hasReset = (counter: Counter | undefined) => counter?.window !== 'minute' && counter?.window !== 'open';
  const [counter, setCounter] = useState<Counter | undefined>(given);
  const [{ much: typed, span, reason }, field] = useFields({
    much: amount,
    span: hasReset(given) ? 'reset' : String(DAY_SECONDS),
    reason: '',
  });
  const { time_zone } = useSession();
  const much = typed.trim();
  const unit = counter?.unit ?? 'usd';
  const wish = counter === undefined || !(Number(much) > 0) ? undefined : wishOf(counter, Number(much));
  const preview = usePreview(wish, JSON.stringify(counter));
  const has_reset = hasReset(counter);
  const seconds = span === 'reset' && !has_reset ? DAY_SECONDS : Number(span);
  const until =
    span === 'reset' && has_reset
      ? (preview.data?.before.resets_at ?? null)
      : new Date(Date.now() + seconds * 1000).toISOString();
  const is_ready = wish !== undefined && until !== null && counter !== undefined;
  return (
    <ChangeDialog
      operation="grantLimit"
      input={is_ready ? ({ ...wish, expires_at: until, reason } as InputOf<'grantLimit'>) : undefined}
      done={({ grant: { expires_at } }) => {
        const end = longTime(new Date(expires_at), time_zone);
        return [`Granted ${amountWords(Number(much), unit)} more for ${counterWords(counter!)}, until ${end}.`];
      }}
      onClose={onClose}
      title="Give a grant"
      action={wish === undefined ? 'Give the grant' : `Grant ${amountWords(Number(much), unit)} more`}
      is_busy={wish !== undefined && until === null && preview.error === null}
    >
      <p className="soft">A grant is room on top of a limit, for a time. It holds from the next request on.</p>
      {given === undefined ? (
        <ChooseCounter onChoose={setCounter} />
      ) : (
        <p>
          For <strong>{whoseWords(given.of)}</strong> {windowWords(given.window)}
        </p>
      )}
      <div className="fitted">
        <TextField
          label={unit === 'usd' ? 'How much more, in USD' : `How many more ${unit}`}
          {...amountField(unit)}
          {...field('much')}
        />
        <SelectField
          label="For how long"
          options={SPANS.filter(({ value }) => value !== 'reset' || has_reset)}
          {...field('span')}
          value={has_reset || span !== 'reset' ? span : String(DAY_SECONDS)}
          hint={
            until !== null && (
              <>
                Ends <TimeText at={until} form="long" />
              </>
            )
          }
        />
      </div>
      <TextField {...REASON} {...field('reason')} />
      <Preview wanted={wish !== undefined} preview={preview} />
    </ChangeDialog>
  );
}

type Preview = ReturnType<typeof usePreview>;

/** What a grant changes. While an amount is typed that of the one before stays, but never that of another counter. */
function usePreview(wish: InputOf<'previewGrant'> | undefined, counter: string | undefined) {
  const late = useLate(wish);
  const { data, error, isPlaceholderData } = useOperation('previewGrant', late ?? ({} as InputOf<'previewGrant'>), {
    enabled: late !== undefined,
  });
  const known = useRef<{ readonly counter: string | undefined; readonly data: typeof data }>(undefined);
  const is_of_wish = !isPlaceholderData && JSON.stringify(late) === JSON.stringify(wish);
  if (is_of_wish && data !== undefined) known.current = { counter, data };
  return {
    data: known.current?.counter === counter ? known.current?.data : undefined,
    error: is_of_wish ? error : null,
  };
}

function wishOf({ of, window, unit }: Counter, amount: number): InputOf<'previewGrant'> {
  return { ...of, window, [unit]: amount } as InputOf<'previewGrant'>;
}

function Preview({ wanted, preview }: { wanted: boolean; preview: Preview }) {
  return (
    <div className="stack boxed flush" aria-live="polite">
      {!wanted && <p className="soft small">What it changes is shown here once it is said for whom and how much.</p>}
      {wanted && preview.error !== null && <ProblemBox problem={preview.error} />}
      {wanted && preview.error === null && <Change preview={preview.data} />}
    </div>
  );
}

function Change({ preview }: { preview: Preview['data'] }): ReactNode {
  if (preview === undefined) return <Skeleton lines={3} label="Working out what it changes" />;
  const { before, after, notes } = preview;
  return (
    <>
      <Used limit={before} label="Now" />
      <Used limit={after} label="With the grant" />
      {after.forecast !== null && <p className="soft small">{after.forecast.words}</p>}
      {notes.map((note) => (
        <p key={note} className="limits-note">
          <Icon name="alarm" />
          {note}
        </p>
      ))}
    </>
  );
}

function SetDialog({ limit, onClose }: { limit: LimitInForce; onClose: () => void }) {
  const { of, window, unit } = limit;
  const [{ much, reason }, field] = useFields({ much: String(withoutGrants(limit) ?? ''), reason: '' });
  const whose = counterWords(limit);
  return (
    <ChangeDialog
      operation="setLimit"
      input={{ ...of, window, [unit]: Number(much), reason } as InputOf<'setLimit'>}
      done={() => [`The limit of ${whose} is ${amountWords(Number(much), unit)} from now on.`]}
      onClose={onClose}
      title={`Set the limit of ${whose}`}
      action="Set the limit"
    >
      <p className="soft">
        It takes the place of what gateway.yaml says for this counter, until you clear it. For a time only, give a grant
        instead.
      </p>
      <Used limit={limit} label="Now" />
      <Origin limit={limit} />
      <TextField
        label={unit === 'usd' ? 'New limit in USD' : `New limit in ${unit}`}
        {...amountField(unit)}
        {...field('much')}
        hint={lessThanSpent(limit, much)}
      />
      <TextField {...REASON} {...field('reason')} />
    </ChangeDialog>
  );
}

/** The limit that a new one takes the place of; grants stay on top of it. */
function withoutGrants({ set, rules }: LimitInForce): number | undefined {
  if (set !== null) return set.limit;
  const enforced = rules.flatMap(({ mode, always, limit }) =>
    mode === 'enforce' && always && limit !== null ? [limit] : [],
  );
  return enforced.length === 0 ? undefined : Math.min(...enforced);
}

function lessThanSpent({ spent, reserved, unit, window, grants }: LimitInForce, much: string): string {
  const amount = Number(much);
  if (much === '' || Number.isNaN(amount)) return '';
  if (amount === 0) return 'A limit of nothing refuses every request it is for.';
  const granted = grants.reduce((sum, grant) => sum + grant.amount, 0);
  if (window === 'open' || amount + granted > spent + reserved) return '';
  return `${amountWords(spent + reserved, unit)} are used already: further requests will be refused until it resets.`;
}

function ClearDialog({ limit, onClose }: { limit: LimitInForce; onClose: () => void }) {
  const { of, window, unit, set, rules } = limit;
  const whose = counterWords(limit);
  return (
    <ChangeDialog
      operation="clearLimit"
      input={{ ...of, window, unit }}
      done={({ now }) => {
        const limit_now = now.limit === null ? 'nothing limits it' : `its limit is ${amountWords(now.limit, unit)}`;
        return [`Took back the limit of ${whose}: ${limit_now} now.`];
      }}
      onClose={onClose}
      title={`Take back the limit of ${whose}`}
      action="Take it back"
      kind="danger"
    >
      {set !== null && (
        <p>
          It was set to {amountWords(set.limit, unit)} by {set.set_by}
          {set.reason === null ? '' : `: ${set.reason}`}.
        </p>
      )}
      {rules.every(({ mode }) => mode !== 'enforce') ? (
        <p>gateway.yaml has no limit for it, so nothing limits it from the next request on.</p>
      ) : (
        <>
          <p>From the next request on gateway.yaml decides again:</p>
          <Origin limit={{ ...limit, set: null, grants: [] }} />
        </>
      )}
    </ChangeDialog>
  );
}

/** A message to whoever gives grants, with a link that opens the grant for them; nothing is sent from here. */
function AskDialog({ counter, onClose }: { counter: Counter; onClose: () => void }) {
  const [{ much: typed, reason }, field] = useFields({ much: '', reason: '' });
  const much = typed.trim();
  const { public_url, person } = useSession();
  const { data } = useOperation('listLimits', {});
  const limit = data?.limits.find((each) => counterId(each) === counterId(counter));
  const more = Number(much) > 0 ? `${amountWords(Number(much), counter.unit)} more` : 'more';
  const used =
    limit?.limit == null
      ? ''
      : ` ${amountWords(limit.spent, limit.unit)} of ${amountWords(limit.limit, limit.unit)} are used.`;
  const link = `${public_url}/console/limits?${new URLSearchParams({ grant: counterId(counter), ...(Number(much) > 0 && { amount: much }) })}`;
  const whose = counterWords(counter);
  const text = `${person.name ?? person.email} asks for ${more} for ${whose}.${used}${reason === '' ? '' : ` Why: ${reason}`}\n${link}`;
  return (
    <Dialog onClose={onClose} title="Ask for more">
      <p className="soft">Send this to an administrator. The link opens the grant for them; they decide.</p>
      <div className="fitted">
        <TextField
          label={counter.unit === 'usd' ? 'How much more, in USD' : `How many more ${counter.unit}`}
          inputMode="decimal"
          autoComplete="off"
          {...field('much')}
        />
        <TextField label="Why" autoComplete="off" {...field('reason')} />
      </div>
      <CopyBlock text={text} label="Message to an administrator" />
    </Dialog>
  );
}
