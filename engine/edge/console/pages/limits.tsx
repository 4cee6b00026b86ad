import { useEffect, useId, useRef, useState } from 'react';
import { type InputOf, type PageSearch, useOperation, usePageSearch, useSession } from '../api.ts';
import type { CountedLimit, Grant, LimitInForce, LimitRule, WrittenLimit } from '../operations.ts';
import {
  ago,
  Badge,
  Button,
  Card,
  CopyBlock,
  counted,
  EmptyState,
  Icon,
  Lines,
  Loaded,
  longAt,
  longTime,
  Meter,
  mono,
  Opens,
  PageHead,
  ProblemBox,
  Skeleton,
  say,
  soft,
  TimeText,
  To,
  timeAt,
} from '../parts/basic.tsx';
import { amountField, OperationForm, Panel } from '../parts/dialog.tsx';
import { Field, type Option } from '../parts/field.tsx';
import { type Columns, ListPage } from '../parts/table.tsx';
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
  useWhose,
  whoseWords,
  windowWords,
} from './limit-words.ts';

type Keys = Partial<Record<Scope, string>>;

/** One counter: how much of its limit is used, how long it lasts, and where the limit comes from. */
function CounterCard({ limit }: { limit: LimitInForce }) {
  const whose = useWhose(limit);
  const { window, resets_at, forecast, room, unit, reserved, in_flight } = limit;
  const outcome = room === 0 ? 'none_left' : forecast?.outcome;
  return (
    <article className="limits-counter stack framed flush" aria-label={`${whose} ${windowWords(window)}`}>
      <header className="row spread any">
        <h3>
          {whose} <span className="soft">{windowWords(window)}</span>
        </h3>
        {outcome === 'none_left' && <Badge tone="alarm">Nothing left</Badge>}
        {outcome === 'ends' && <Badge tone="warn">Ends before it resets</Badge>}
      </header>
      <Used limit={limit} label="Used" />
      <p className="soft small">
        {resets_at === null ? 'Counts only what is under way.' : say`Resets ${ago(resets_at)}, ${longAt(resets_at)}.`}{' '}
        {forecast?.outcome !== 'none_left' && forecast?.words}
        {reserved > 0 &&
          window !== 'open' &&
          // It comes back where they cost less.
          ` ${amountWords(reserved, unit)} are reserved by ${counted(in_flight, 'request')} in flight.`}
      </p>
      <Origin limit={limit} />
      <Actions limit={limit} />
    </article>
  );
}

/** What can be done about a limit. */
function Actions({ limit }: { limit: LimitInForce }) {
  const [, change] = usePageSearch();
  const { person, time_zone } = useSession();
  const { of, window, unit, resets_at } = limit;
  const whose = counterWords(limit);
  const id = counterId(limit);
  // A developer sees what they spent themselves.
  const has_usage = unit === 'usd' && resets_at !== null && (person.is_admin || of.user === person.email);
  return (
    <div className="limits-actions row">
      {!person.is_admin && limit.limit !== null && (
        <Button aria-label={`Ask for more of ${whose}`} onClick={() => change({ ask: id })}>
          Ask for more
        </Button>
      )}
      {person.is_admin && (
        <>
          <Button aria-label={`Give a grant for ${whose}`} onClick={() => change({ grant: id })}>
            Give a grant
          </Button>
          <Opens kind="quiet" aria-label={`Set the limit of ${whose}`} shows={<SetDialog limit={limit} />}>
            Set the limit
          </Opens>
          {limit.set !== null && (
            <Opens kind="quiet" aria-label={`Take back the limit of ${whose}`} shows={<ClearDialog limit={limit} />}>
              Take back
            </Opens>
          )}
        </>
      )}
      {has_usage && (
        <To
          page={[
            '/usage',
            { ...of, ...rangeOf(window, resets_at, time_zone), by: of.model === undefined ? 'model' : 'day' },
          ]}
          className="button quiet"
          aria-label={`Usage of ${whose}`}
        >
          Usage
        </To>
      )}
    </div>
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

/** Where a limit comes from: rules of gateway.yaml, what was set in their place, what was granted on top. */
function Origin({ limit: { rules, set, grants, unit, counted } }: { limit: LimitInForce }) {
  const because = (reason: string | null) => (reason === null ? '.' : `: ${reason}`);
  const by = (who: string | null, otherwise: string) => (who === null ? otherwise : ` by ${who}`);
  return (
    <Lines
      className="soft small any"
      of={[
        !counted && 'No limit of gateway.yaml counts this: what is set or granted has no effect.',
        set !== null &&
          say`Set to ${amountWords(set.limit, unit)}${by(set.set_by, '')}, ${timeAt(set.set_at)}${because(set.reason)}`,
        ...grants.map(
          ({ amount, granted_by, expires_at, reason }) =>
            say`Plus ${amountWords(amount, unit)} until ${longAt(expires_at)}, granted${by(granted_by, ' at run time')}${because(reason)}`,
        ),
        ...rules.map((rule) => {
          const is_replaced = set !== null && rule.mode === 'enforce';
          return (
            <span key={rule.rule} className={is_replaced ? 'struck' : undefined}>
              {amountsWords(rule, unit)}
              <OfRule rule={rule} is_replaced={is_replaced} />
            </span>
          );
        }),
      ]}
    />
  );
}

type Written = Pick<WrittenLimit, 'rule' | 'mode' | 'always' | 'limit' | 'by_group' | 'condition'>;

/** By which rule, and for which requests. */
function OfRule({ rule: written, is_replaced = false }: { rule: Written; is_replaced?: boolean }) {
  const { rule, mode, always, limit, by_group, condition } = written;
  return (
    <>
      {' by '}
      <code>{rule}</code>
      {mode === 'shadow' && ', only reported'}
      {is_replaced && ', replaced by what was set'}
      {!is_replaced && condition === null && !(always || limit === null || by_group !== null) && ', for some requests'}
      {!is_replaced && condition !== null && say`, for requests where ${mono(condition)}`}
    </>
  );
}

/** Whose limits an address asks for. */
function scopesIn(search: PageSearch): Keys {
  return Object.fromEntries(SCOPES.flatMap(({ scope }) => (search[scope] ? [[scope, search[scope]]] : [])));
}

const CLEARED = { ...Object.fromEntries(SCOPES.map(({ scope }) => [scope, undefined])), grants_after: undefined };

/** Looks for the limits of one person, team or whatever is counted. */
function Finder() {
  const [search] = usePageSearch();
  const found = SCOPES.find(({ scope }) => search[scope])?.scope;
  const text = (found && search[found]) ?? '';
  // Who comes back by the address or the browser's buttons finds the fields as they were.
  return <FinderForm key={`${found} ${text}`} scope={found ?? 'user'} text={text} />;
}

function FinderForm(given: { scope: Scope; text: string }) {
  const [, change] = usePageSearch();
  const [scope, setScope] = useState(given.scope);
  const [text, setText] = useState(given.text);
  return (
    <form
      className="filters"
      role="search"
      aria-label="Look for limits"
      onSubmit={(event) => {
        event.preventDefault();
        change({ ...CLEARED, [scope]: text.trim() });
      }}
    >
      <Field
        label="Limits of a"
        value={scope}
        onValue={(value) => setScope(value as Scope)}
        options={SCOPES.map((each) => [each.scope, each.one])}
      />
      <Field
        label={scope === 'user' ? 'E-mail address' : scope === 'token' ? 'Id' : 'Name'}
        required
        value={text}
        onValue={setText}
      />
      <Button type="submit">Show</Button>
      {given.text !== '' && (
        <Button kind="quiet" onClick={() => change(CLEARED)}>
          Show all
        </Button>
      )}
    </form>
  );
}

const GRANT_COLUMNS: Columns<Grant> = [
  { title: 'For', cell: counterWords },
  { title: 'More', cell: ({ amount, unit }) => amountWords(amount, unit) },
  { title: 'Why', cell: ({ reason }) => reason ?? soft('no reason given') },
  { title: 'By', cell: ({ granted_by }) => granted_by ?? 'an administrator' },
  { title: 'Until', cell: ({ expires_at, revoked_at }) => <TimeText at={revoked_at ?? expires_at} /> },
];

/** Grants, the newest first: who gave what to whom, why and until when. */
function Grants({ of }: { of: Keys }) {
  const [{ ended }, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const is_all = ended === 'true';
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
  const columns: Columns<Grant> = [
    ...GRANT_COLUMNS,
    is_all && {
      title: 'State',
      cell: ({ state }) => <Badge tone={state === 'active' ? 'good' : 'plain'}>{state}</Badge>,
    },
    is_admin && {
      title: 'Actions',
      cell: (grant) =>
        grant.state === 'active' && (
          <span className="row-actions">
            <Opens
              kind="quiet"
              aria-label={`Revoke the grant for ${whoseWords(grant.of)}`}
              shows={<RevokeGrant grant={grant} />}
            >
              Revoke
            </Opens>
          </span>
        ),
    },
  ];
  return (
    <ListPage
      operation="listGrants"
      input={{ ...of, ended: is_all ? 'true' : 'false' }}
      title="Grants"
      actions={toggle}
      page={25}
      turn="grants_after"
      lines={3}
      columns={columns}
      empty={[
        is_all ? 'Nothing was granted yet' : 'Nothing is granted now',
        'A grant is room on top of a limit, for a time.',
      ]}
    />
  );
}

function RevokeGrant({ grant }: { grant: Grant }) {
  const { id, of, window, unit, amount, granted_by, reason, expires_at } = grant;
  return (
    <OperationForm
      operation="revokeGrant"
      input={{ id }}
      done={({ now }) => {
        const left = now.room === null ? 'nothing limits it' : `${amountWords(now.room, unit)} are left`;
        return [`Revoked ${amountWords(amount, unit)} for ${counterWords(grant)}: ${left} now.`];
      }}
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
    </OperationForm>
  );
}

interface LimitsProps {
  readonly title: string;
  readonly of?: Keys;
  /** Which of them, the first ones first. */
  readonly chosen?: (limits: readonly LimitInForce[]) => readonly LimitInForce[];
  /** What to say where there are none, and why. */
  readonly empty: readonly [title: string, why: string];
}

/** At first so many, where only some are chosen. */
const SHOWN = 6;

/** Limits of somebody or something as cards; those of whoever looks, or of everybody, where nobody is named. */
function Limits({ title, of = {}, chosen, empty: [nothing, why] }: LimitsProps) {
  const [is_long, setLong] = useState(false);
  const query = useOperation('listLimits', of, { every_seconds: 15 });
  return (
    <Card title={title}>
      <Loaded query={query}>
        {({ limits, written }) => {
          const found = chosen?.(limits) ?? limits;
          const is_cut = chosen === nearest && found.length > SHOWN;
          const also = chosen === undefined ? written : [];
          return (
            <>
              {found.length + also.length === 0 && <EmptyState title={nothing}>{why}</EmptyState>}
              <div className="fitted widest">
                {(is_cut && !is_long ? found.slice(0, SHOWN) : found).map((limit) => (
                  <CounterCard key={counterId(limit)} limit={limit} />
                ))}
              </div>
              {is_cut && (
                <Button kind="quiet" onClick={() => setLong(!is_long)}>
                  {is_long ? 'Show fewer' : `Show all ${found.length}`}
                </Button>
              )}
              {also.length > 0 && <AlsoWritten written={also} />}
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** The limits of gateway.yaml that the same requests come under, and that count by something else. */
function AlsoWritten({ written }: { written: readonly WrittenLimit[] }) {
  return (
    <>
      <h3>Also for these requests</h3>
      <Lines
        className="soft small any"
        of={written.map((rule) => {
          const each = rule.scope.replace('+rule', '').replaceAll('+', ' and ');
          return say`${amountsWords(rule, rule.unit)} for each ${each} ${windowWords(rule.window)}${<OfRule rule={rule} />}`;
        })}
      />
    </>
  );
}

/** Those of which something is used, the fullest first. */
function nearest(limits: readonly LimitInForce[]): readonly LimitInForce[] {
  const used = ({ spent, reserved }: LimitInForce) => spent + reserved;
  // A limit of nothing is used up.
  const share = (each: LimitInForce) => (each.limit === 0 ? Number.POSITIVE_INFINITY : used(each) / each.limit!);
  return limits.filter((each) => each.limit !== null && used(each) > 0).toSorted((a, b) => share(b) - share(a));
}

/** Those whose limit was set, or that have room granted. */
function changed(limits: readonly LimitInForce[]): readonly LimitInForce[] {
  return limits.filter(({ set, grants }) => set !== null || grants.length > 0);
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
              Write one into gateway.yaml, such as <code>spend_limits: {'{ defaults: { user_daily_usd: 50 } }'}</code>.
              Everything is counted without one, too.
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

/** What windows are called now, and the range of the usage page for those it has a name for. */
const WHEN: Readonly<Record<CountedLimit['window'], readonly [words: string, range?: string]>> = {
  day: ['today', 'today'],
  week: ['this week'],
  month: ['this month', 'month'],
  minute: ['this minute'],
  open: ['now'],
};

/** How many a limit counts, and for how many it is nearly or wholly used. */
function Counted({ limit: { scope, window, unit, counted, nearly_none, none_left } }: { limit: CountedLimit }) {
  const [when, range] = WHEN[window];
  if (counted === 0) return <span className="soft"> · none {when}</span>;
  const words = `${howMany(counted, scope)} ${when}`;
  return (
    <span className="soft">
      {' · '}
      {range === undefined || unit !== 'usd' ? (
        words
      ) : (
        <To page={['/usage', { by: scope.replaceAll('+', ','), range }]}>{words}</To>
      )}
      {nearly_none > 0 && `, ${nearly_none} nearly at the end`}
      {none_left > 0 && `, ${none_left} with nothing left`}
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
  const [search, change] = usePageSearch();
  const { time_zone, person } = useSession();
  const of = person.is_admin ? scopesIn(search) : {};
  const is_of_all = person.is_admin && Object.keys(of).length === 0;
  const asked = person.is_admin ? undefined : counterOf(search.ask ?? '');
  const what = person.is_admin
    ? 'What may be spent, what is left, and who was given more.'
    : 'What you may spend, and what is left.';
  return (
    <>
      <PageHead title="Limits" intro={`${what} Days begin at midnight, ${time_zone}.`}>
        {person.is_admin && (
          <Button kind="primary" onClick={() => change({ grant: 'new' })}>
            Give a grant
          </Button>
        )}
      </PageHead>
      {person.is_admin && <Finder />}
      {is_of_all ? (
        <>
          <Limits
            title="Nearest to their end"
            chosen={nearest}
            empty={['Nothing that is limited was spent yet', 'Requests count here as soon as there are some.']}
          />
          <Rules />
          <Limits
            title="Changed by hand"
            chosen={changed}
            empty={['Everything is as gateway.yaml says', 'No limit was set, and nothing is granted.']}
          />
        </>
      ) : (
        <Limits
          title={person.is_admin ? whoseWords(of) : 'Yours'}
          of={of}
          empty={['Nothing is counted here yet', 'Nothing was spent in this window, and no limit is for it.']}
        />
      )}
      <Grants of={of} />
      {person.is_admin && search.grant !== undefined && (
        <GrantDialog
          key={search.grant}
          given={counterOf(search.grant)}
          amount={search.amount ?? ''}
          onClose={() => change({ grant: undefined, amount: undefined })}
        />
      )}
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

interface Choice {
  readonly kind: Kind;
  readonly keys: Keys;
}

/** The counter that is meant, once it is said whose. */
function chosenCounter({ kind: { scope, window, unit }, keys }: Choice): Counter | undefined {
  const of = Object.fromEntries(scope.split('+').map((each) => [each, keys[each as Scope]?.trim() ?? '']));
  return Object.values(of).every((key) => key !== '') ? { of, window, unit } : undefined;
}

/** Asks which counter is meant: of what gateway.yaml counts, and whose. */
function ChooseCounter({ choice: { kind, keys }, onChoose }: { choice: Choice; onChoose: (choice: Choice) => void }) {
  const rules = useOperation('listLimitRules', {});
  const written = [...ALWAYS, ...(rules.data?.rules.flatMap(({ limits }) => limits) ?? [])];
  const kinds = new Map([...written, ...written.flatMap(withinShared)].map((each) => [idOf(each), each]));
  const people_id = useId();
  const typed = useLate(keys.user?.trim() || undefined);
  const people = useOperation('listPeople', { search: typed, limit: 10 }, { enabled: typed !== undefined });
  return (
    <>
      <Field
        label="Which limit"
        value={idOf(kind)}
        onValue={(id) => onChoose({ kind: kinds.get(id)!, keys })}
        options={[...kinds].map(([id, each]) => [id, kindWords(each)])}
      />
      {(kind.scope.split('+') as Scope[]).map((each) => (
        <Field
          key={each}
          label={LABELS[each]}
          type={each === 'user' ? 'email' : 'text'}
          required
          list={each === 'user' ? people_id : undefined}
          value={keys[each] ?? ''}
          onValue={(value) => onChoose({ kind, keys: { ...keys, [each]: value } })}
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

const DAY_SECONDS = 86_400;
const UNTIL_RESET: Option = ['reset', 'until it resets'];
const SPANS: readonly Option[] = [
  ['3600', 'for an hour'],
  [String(DAY_SECONDS), 'for a day'],
  [String(3 * DAY_SECONDS), 'for 3 days'],
  [String(7 * DAY_SECONDS), 'for a week'],
  [String(30 * DAY_SECONDS), 'for 30 days'],
];

const amountOf = (unit: Counter['unit']) => amountField(unit === 'usd' ? 'number' : 'integer');
const moreWords = (unit: Counter['unit']) => (unit === 'usd' ? 'How much more, in USD' : `How many more ${unit}`);
const REASON = {
  label: 'Why',
  required: true,
  maxLength: 200,
  hint: 'Kept in the list of changes, for whoever asks later.',
};

/** Gives room on top of a limit: to whom, how much, until when and why; what it changes is shown before. */
function GrantDialog(props: { given: Counter | undefined; amount: string; onClose: () => void }) {
  const { given, amount, onClose } = props;
  const [choice, choose] = useState<Choice>({ kind: ALWAYS[0]!, keys: {} });
  const counter = given ?? chosenCounter(choice);
  const [much, setMuch] = useState(amount.trim());
  const { time_zone } = useSession();
  const { window, unit } = given ?? choice.kind;
  const request =
    counter === undefined || !(Number(much) > 0)
      ? undefined
      : ({ ...counter.of, window, [unit]: Number(much) } as InputOf<'previewGrant'>);
  const preview = usePreview(request, JSON.stringify(counter));
  const spans = window === 'minute' || window === 'open' ? SPANS : [UNTIL_RESET, ...SPANS];
  const [first] = spans === SPANS ? SPANS[1]! : UNTIL_RESET;
  const untilOf = (span = first!) => {
    if (span === 'reset' && spans !== SPANS) return preview.data?.before.resets_at ?? null;
    const seconds = span === 'reset' ? DAY_SECONDS : Number(span);
    return new Date(Date.now() + seconds * 1000).toISOString();
  };
  return (
    <OperationForm
      operation="grantLimit"
      input={({ span, reason }) => {
        const until = untilOf(span);
        return request && until ? ({ ...request, expires_at: until, reason } as InputOf<'grantLimit'>) : undefined;
      }}
      fields={({ span }) => {
        const until = untilOf(span);
        return {
          span: {
            label: 'For how long',
            options: spans,
            initial: first,
            hint: until !== null && say`Ends ${longAt(until)}`,
          },
          reason: REASON,
        };
      }}
      done={({ grant: { expires_at } }) => {
        const end = longTime(new Date(expires_at), time_zone);
        return [`Granted ${amountWords(Number(much), unit)} more for ${counterWords(counter!)}, until ${end}.`];
      }}
      onClose={onClose}
      title="Give a grant"
      action={request === undefined ? 'Give the grant' : `Grant ${amountWords(Number(much), unit)} more`}
      is_busy={(values) => request !== undefined && untilOf(values.span) === null && preview.error === null}
    >
      {(field) => (
        <>
          <p className="soft">A grant is room on top of a limit, for a time. It holds from the next request on.</p>
          {given === undefined ? (
            <ChooseCounter choice={choice} onChoose={choose} />
          ) : (
            <p>
              For <strong>{whoseWords(given.of)}</strong> {windowWords(given.window)}
            </p>
          )}
          <div className="fitted">
            <Field label={moreWords(unit)} required {...amountOf(unit)} value={much} onValue={setMuch} />
            {field('span')}
          </div>
          {field('reason')}
          <Preview wanted={request !== undefined} preview={preview} />
        </>
      )}
    </OperationForm>
  );
}

type Preview = ReturnType<typeof usePreview>;

/** What a grant changes. While an amount is typed that of the one before stays, but never that of another counter. */
function usePreview(request: InputOf<'previewGrant'> | undefined, counter: string | undefined) {
  const late = useLate(request);
  const { data, error, isPlaceholderData } = useOperation('previewGrant', late ?? ({} as InputOf<'previewGrant'>), {
    enabled: late !== undefined,
  });
  const known = useRef<{ readonly counter: string | undefined; readonly data: typeof data }>(undefined);
  const is_current = !isPlaceholderData && JSON.stringify(late) === JSON.stringify(request);
  if (is_current && data !== undefined) known.current = { counter, data };
  return {
    data: known.current?.counter === counter ? known.current?.data : undefined,
    error: is_current ? error : null,
  };
}

function Preview({ wanted, preview: { data, error } }: { wanted: boolean; preview: Preview }) {
  return (
    <div className="stack boxed flush" aria-live="polite">
      {!wanted && <p className="soft small">What it changes is shown here once it is said for whom and how much.</p>}
      {wanted && error !== null && <ProblemBox problem={error} />}
      {wanted && error === null && data === undefined && <Skeleton lines={3} label="Working out what it changes" />}
      {wanted && error === null && data !== undefined && (
        <>
          <Used limit={data.before} label="Now" />
          <Used limit={data.after} label="With the grant" />
          {data.after.forecast !== null && <p className="soft small">{data.after.forecast.words}</p>}
          {data.notes.map((note) => (
            <p key={note} className="limits-note">
              <Icon name="alarm" />
              {note}
            </p>
          ))}
        </>
      )}
    </div>
  );
}

function SetDialog({ limit }: { limit: LimitInForce }) {
  const { of, window, unit } = limit;
  const whose = counterWords(limit);
  return (
    <OperationForm
      operation="setLimit"
      input={{ ...of, window }}
      fields={(typed) => ({
        [unit]: {
          label: unit === 'usd' ? 'New limit in USD' : `New limit in ${unit}`,
          required: true,
          initial: String(withoutGrants(limit) ?? ''),
          hint: lessThanSpent(limit, typed[unit] ?? String(withoutGrants(limit) ?? '')),
        },
        reason: REASON,
      })}
      done={(_, sent) => [`The limit of ${whose} is ${amountWords(sent[unit]!, unit)} from now on.`]}
      title={`Set the limit of ${whose}`}
      action="Set the limit"
    >
      <p className="soft">
        It takes the place of what gateway.yaml says for this counter, until you clear it. For a time only, give a grant
        instead.
      </p>
      <Used limit={limit} label="Now" />
      <Origin limit={limit} />
    </OperationForm>
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

function ClearDialog({ limit }: { limit: LimitInForce }) {
  const { of, window, unit, set, rules } = limit;
  const whose = counterWords(limit);
  return (
    <OperationForm
      operation="clearLimit"
      input={{ ...of, window, unit }}
      done={({ now }) => {
        const limit_now = now.limit === null ? 'nothing limits it' : `its limit is ${amountWords(now.limit, unit)}`;
        return [`Took back the limit of ${whose}: ${limit_now} now.`];
      }}
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
    </OperationForm>
  );
}

/** A message to whoever gives grants, with a link that opens the grant for them; nothing is sent from here. */
function AskDialog({ counter, onClose }: { counter: Counter; onClose: () => void }) {
  const [typed, setTyped] = useState('');
  const [reason, setReason] = useState('');
  const { public_url, person } = useSession();
  const { data } = useOperation('listLimits', {});
  const { unit } = counter;
  const much = Number(typed) > 0 ? typed.trim() : undefined;
  const limit = data?.limits.find((each) => counterId(each) === counterId(counter));
  const more = much === undefined ? 'more' : `${amountWords(Number(much), unit)} more`;
  const used =
    limit?.limit == null ? '' : ` ${amountWords(limit.spent, unit)} of ${amountWords(limit.limit, unit)} are used.`;
  const why = reason === '' ? '' : ` Why: ${reason}`;
  const grant = new URLSearchParams({ grant: counterId(counter), ...(much !== undefined && { amount: much }) });
  const text = `${person.name ?? person.email} asks for ${more} for ${counterWords(counter)}.${used}${why}\n${public_url}/console/limits?${grant}`;
  return (
    <Panel onClose={onClose} title="Ask for more">
      <p className="soft">Send this to an administrator. The link opens the grant for them; they decide.</p>
      <div className="fitted">
        <Field label={moreWords(unit)} inputMode="decimal" value={typed} onValue={setTyped} />
        <Field label="Why" value={reason} onValue={setReason} />
      </div>
      <CopyBlock text={text} label="Message to an administrator" />
    </Panel>
  );
}
