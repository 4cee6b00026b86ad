import { useState } from 'react';
import { isSpendWindow, LIMIT_WINDOWS, perWindow, WINDOWS } from '../../../base/contract/windows.ts';
import { type InputOf, usePageSearch, useSession } from '../api.ts';
import type { CountedLimit, Grant, LimitInForce, LimitRule, WrittenLimit } from '../operations.ts';
import { Badge, Button, CopyBlock, Icon, Meter, Opens, Query } from '../parts/basic.tsx';
import { OperationForm, Panel } from '../parts/dialog.tsx';
import { ENDED, Field, type Filter, Filters, filtersIn, type Option, titleOf } from '../parts/field.tsx';
import { EmptyState, Lines, PageHead, To } from '../parts/page.tsx';
import { type Columns, ListPage } from '../parts/table.tsx';
import { ago, counted, longAt, longTime, mono, say, soft, strong, TimeText, timeAt } from '../parts/words.tsx';
import { firstDay, rangeOfWindow, today } from '../ranges.ts';
import { amountWords, type Counter, counterId, counterWords, SCOPES, useWhose, whoseWords } from './limit-words.ts';

type Keys = LimitInForce['of'];

function bareAmount(amount: number, unit: LimitInForce['unit']): string {
  const words = amountWords(amount, unit);
  return words.slice(0, words.lastIndexOf(' '));
}

/** Amounts of a rule, per group if they differ: `50 USD for science, 5 USD for others`. */
function amountsWords(
  { limit, by_group }: Pick<LimitInForce['rules'][number], 'limit' | 'by_group'>,
  unit: LimitInForce['unit'],
): string {
  const groups = Object.entries(by_group ?? {}).map(([group, amount]) => `${amountWords(amount, unit)} for ${group}`);
  const others = limit === null ? [] : [`${amountWords(limit, unit)}${groups.length > 0 ? ' for others' : ''}`];
  return [...groups, ...others].join(', ') || 'By group';
}

/** A count of scopes in words: `1 person`, `3 teams`, `2 combinations of user and model`. */
function howMany(count: number, scope: string): string {
  const words = SCOPES.find((each) => each.scope === scope);
  if (words !== undefined) return counted(count, words.one, words.many);
  return `${counted(count, 'combination')} of ${scope.split('+').join(' and ')}`;
}

/** Parses a text of `counterId`; `undefined` for any other text, as it comes from a URL. */
function counterOf(id: string): Counter | undefined {
  const fields = Object.fromEntries(new URLSearchParams(id));
  const window = LIMIT_WINDOWS.find((each) => each === fields.window);
  const unit = (['usd', 'requests', 'tokens'] as const).find((each) => each === fields.unit);
  const of = Object.fromEntries(SCOPES.flatMap(({ scope }) => (fields[scope] ? [[scope, fields[scope]]] : [])));
  if (window === undefined || unit === undefined || Object.keys(of).length === 0) return undefined;
  return { of, window, unit };
}

/** Whether a counter has only the grants of one person within a shared limit. */
function isPersonal({ of: { user, ...shared }, counted, rules }: LimitInForce): boolean {
  return user !== undefined && Object.keys(shared).length > 0 && counted && rules.length === 0;
}

const hasNoGrant = (limit: LimitInForce) => limit.limit === 0 && limit.set === null && isPersonal(limit);

function CounterCard({ limit }: { limit: LimitInForce }) {
  const whose = useWhose(limit);
  const { window, resets_at, forecast, room, unit, reserved, in_flight } = limit;
  const left = room === 0 ? 'none_left' : forecast?.outcome;
  const outcome = hasNoGrant(limit) ? undefined : left;
  return (
    <article className="limits-counter stack framed" aria-label={`${whose} ${perWindow(window)}`}>
      <header className="row spread any">
        <h3>
          {whose} <span className="soft">{perWindow(window)}</span>
        </h3>
        {outcome === 'none_left' && <Badge tone="alarm">Exhausted</Badge>}
        {outcome === 'ends' && <Badge tone="warn">Will run out before reset</Badge>}
      </header>
      <Used limit={limit} label="Used" />
      <p className="soft small">
        {resets_at === null ? 'Concurrent requests.' : say`Resets ${ago(resets_at)}, ${longAt(resets_at)}.`}{' '}
        {forecast?.outcome !== 'none_left' && forecast?.words}
        {reserved > 0 &&
          window !== 'open' &&
          // Reservations in excess of the cost are released.
          ` ${amountWords(reserved, unit)} reserved by ${counted(in_flight, 'request')} in flight.`}
      </p>
      <Origin limit={limit} />
      <Actions limit={limit} />
    </article>
  );
}

function Actions({ limit }: { limit: LimitInForce }) {
  const [, change] = usePageSearch();
  const { person, time_zone } = useSession();
  const { of, window } = limit;
  const whose = counterWords(limit);
  const id = counterId(limit);
  // Developers see only their own usage.
  const has_usage = isSpendWindow(window) && (person.is_admin || of.user === person.email);
  return (
    <div className="limits-actions row">
      {!person.is_admin && limit.limit !== null && (
        <Opens aria-label={`Ask for more of ${whose}`} shows={<AskDialog limit={limit} />}>
          Ask for more
        </Opens>
      )}
      {person.is_admin && (
        <>
          <Button aria-label={`Grant more temporarily for ${whose}`} onClick={() => change({ grant: id })}>
            Grant more temporarily
          </Button>
          <Opens kind="quiet" aria-label={`Set limit of ${whose}`} shows={<SetDialog limit={limit} />}>
            Set limit
          </Opens>
          {limit.set !== null && (
            <Opens kind="quiet" aria-label={`Remove override of ${whose}`} shows={<ClearDialog limit={limit} />}>
              Remove override
            </Opens>
          )}
        </>
      )}
      {has_usage && (
        <To
          page={[
            '/usage',
            { ...of, ...rangeOfWindow(window, time_zone), by: of.model === undefined ? 'model' : 'day' },
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

function Used({ limit, label }: { limit: LimitInForce; label: string }) {
  const { unit, spent, reserved, room, in_flight, window } = limit;
  const used = window === 'open' ? in_flight : spent;
  if (hasNoGrant(limit)) return <p>Personal grant: none.</p>;
  if (limit.limit === null) {
    const is_for_some = limit.rules.some(({ mode }) => mode === 'enforce');
    return <p>{`${amountWords(used, unit)}, ${is_for_some ? 'limited for some requests.' : 'unlimited.'}`}</p>;
  }
  const left = room === 0 ? 'nothing' : bareAmount(room ?? 0, unit);
  const words = `${bareAmount(used, unit)} of ${amountWords(limit.limit, unit)}, ${left} left`;
  const taken = window === 'open' ? in_flight : spent + reserved;
  return <Meter label={label} share={limit.limit === 0 ? 1 : taken / limit.limit} words={words} />;
}

function Origin({ limit }: { limit: LimitInForce }) {
  const { rules, set, grants, unit, counted } = limit;
  const { user, ...shared } = limit.of;
  const because = (reason: string | null) => (reason === null ? '.' : `: ${reason}`);
  const by = (who: string | null, otherwise: string) => (who === null ? otherwise : ` by ${who}`);
  return (
    <Lines
      className="soft small any"
      of={[
        !counted && 'No rule of gateway.yaml uses this counter, so overrides and grants have no effect.',
        isPersonal(limit) &&
          `A personal grant is for ${user} alone, and is used once the limit of ${whoseWords(shared)} is used up.`,
        set !== null &&
          say`Set to ${amountWords(set.limit, unit)}${by(set.set_by, '')}, ${timeAt(set.set_at)}${because(set.reason)}`,
        ...grants.map(
          ({ amount, granted_by, expires_at, reason }) =>
            say`Grant of ${amountWords(amount, unit)} until ${longAt(expires_at)}${by(granted_by, '')}${because(reason)}`,
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

function OfRule({ rule: written, is_replaced = false }: { rule: Written; is_replaced?: boolean }) {
  const { rule, mode, always, limit, by_group, condition } = written;
  return (
    <>
      {' by '}
      <code>{rule}</code>
      {mode === 'shadow' && ', shadow'}
      {is_replaced && ', overridden'}
      {!is_replaced && condition === null && !(always || limit === null || by_group !== null) && ', for some requests'}
      {!is_replaced && condition !== null && say`, for requests where ${mono(condition)}`}
    </>
  );
}

const SCOPE_FILTERS: readonly Filter[] = SCOPES.map(({ scope, one }, i) => ({
  name: scope,
  label: titleOf(one),
  is_minor: i > 1,
}));

const GRANT_COLUMNS: Columns<Grant> = [
  { title: 'Limit', cell: counterWords },
  { title: 'Amount', cell: ({ amount, unit }) => amountWords(amount, unit) },
  { title: 'Reason', cell: ({ reason }) => <span className="any">{reason ?? soft('none')}</span> },
  { title: 'Granted by', cell: ({ granted_by }) => granted_by ?? 'an administrator' },
  { title: 'Until', cell: ({ expires_at, revoked_at }) => <TimeText at={revoked_at ?? expires_at} /> },
];

function Grants({ of }: { of: Keys }) {
  const [{ ended }] = usePageSearch();
  const { is_admin } = useSession().person;
  const columns: Columns<Grant> = [
    ...GRANT_COLUMNS,
    ended !== undefined && {
      title: 'State',
      cell: ({ state }) => <Badge tone={state === 'active' ? 'good' : 'plain'}>{state}</Badge>,
    },
    is_admin && {
      title: 'Actions',
      cell: (grant) =>
        grant.state === 'active' && (
          <span className="row-actions row">
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
      input={of}
      title="Temporary grants"
      filters={[ENDED]}
      page={25}
      columns={columns}
      empty={[ended === undefined ? 'No active grants' : 'No grants yet']}
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
        const left = now.room === null ? 'unlimited' : `${amountWords(now.room, unit)} left`;
        return [`Revoked ${amountWords(amount, unit)} for ${counterWords(grant)}: ${left} now.`];
      }}
      title={`Revoke the grant for ${whoseWords(of)}`}
      action={`Revoke ${amountWords(amount, unit)}`}
      kind="danger"
      intro={say`${granted_by} granted ${amountWords(amount, unit)} more ${perWindow(window)} until ${longAt(expires_at)}${reason !== null && `: ${reason}`}. This takes effect with the next request.`}
    />
  );
}

const SHOWN = 6;

function Limits(props: {
  readonly title: string;
  readonly of?: Keys;
  readonly chosen?: (limits: readonly LimitInForce[]) => readonly LimitInForce[];
  readonly empty: readonly [title: string, why: string];
}) {
  const { title, of = {}, chosen, empty } = props;
  const [is_long, setLong] = useState(false);
  return (
    <Query operation="listLimits" input={of} every_seconds={15} title={title}>
      {({ limits, written }) => {
        const found = chosen?.(limits) ?? limits;
        const is_cut = chosen === nearest && found.length > SHOWN;
        const also = chosen === undefined ? written : [];
        return (
          <div className="stack">
            {found.length + also.length === 0 && <EmptyState title={empty[0]}>{empty[1]}</EmptyState>}
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
          </div>
        );
      }}
    </Query>
  );
}

function AlsoWritten({ written }: { written: readonly WrittenLimit[] }) {
  return (
    <>
      <h3>Limits without usage yet</h3>
      <Lines
        className="soft small any"
        of={written.map((rule) => {
          const each = rule.scope.replace('+rule', '').replaceAll('+', ' and ');
          return say`${amountsWords(rule, rule.unit)} for each ${each} ${perWindow(rule.window)}${<OfRule rule={rule} />}`;
        })}
      />
    </>
  );
}

function nearest(limits: readonly LimitInForce[]): readonly LimitInForce[] {
  const used = ({ spent, reserved }: LimitInForce) => spent + reserved;
  // A limit of 0 is exhausted.
  const share = (each: LimitInForce) => (each.limit === 0 ? Number.POSITIVE_INFINITY : used(each) / each.limit!);
  return limits.filter((each) => each.limit !== null && used(each) > 0).toSorted((a, b) => share(b) - share(a));
}

function changed(limits: readonly LimitInForce[]): readonly LimitInForce[] {
  return limits.filter(({ set, grants }) => set !== null || grants.length > 0);
}

function Rules() {
  return (
    <Query operation="listLimitRules" every_seconds={30} title="Rules">
      {({ rules, since }) =>
        rules.length === 0 ? (
          <EmptyState title="No limits yet">
            {say`Add one to gateway.yaml, such as ${mono('spend_limits: { defaults: { user_daily_usd: 50 } }')}. Usage is counted without limits, too.`}
          </EmptyState>
        ) : (
          <ul className="bare ruled any">
            {rules.map((rule) => (
              <Rule key={rule.rule} rule={rule} since={since} />
            ))}
          </ul>
        )
      }
    </Query>
  );
}

function Rule({ rule, since }: { rule: LimitRule; since: string }) {
  return (
    <li className="stack near">
      <div className="row spread">
        <p>
          <To page={['/config', { rule: rule.rule }]}>{rule.rule}</To>
        </p>
        {rule.mode === 'shadow' && <Badge tone="info">Shadow</Badge>}
      </div>
      {rule.limits.map((limit) => (
        <p key={limit.words}>
          <strong>{limit.words}</strong>
          <Counted limit={limit} />
        </p>
      ))}
      {rule.condition !== null && <p className="small">{say`where ${mono(rule.condition)}`}</p>}
      <Refused rule={rule} since={since} />
    </li>
  );
}

function Counted({ limit: { scope, window, counted, nearly_none, none_left } }: { limit: CountedLimit }) {
  const { time_zone } = useSession();
  const when = WINDOWS[window].now;
  if (counted === 0) return <span className="soft"> · no usage {when}</span>;
  const words = `${howMany(counted, scope)} ${when}`;
  return (
    <span className="soft">
      {' · '}
      {!isSpendWindow(window) ? (
        words
      ) : (
        <To page={['/usage', { by: scope.replaceAll('+', ','), ...rangeOfWindow(window, time_zone) }]}>{words}</To>
      )}
      {nearly_none > 0 && `, ${nearly_none} nearly exhausted`}
      {none_left > 0 && `, ${none_left} exhausted`}
    </span>
  );
}

function Refused({ rule, since }: { rule: LimitRule; since: string }) {
  const { mode, refused, refused_people, would_refuse } = rule;
  if (mode === 'shadow') {
    if (would_refuse === 0) return <p className="soft small">Would have rejected no requests today.</p>;
    return <p className="small">Would have rejected {counted(would_refuse, 'request')} today.</p>;
  }
  if (refused === 0) return null;
  const error = rule.limits[0]?.unit === 'usd' ? 'spend_limit_exceeded' : 'rate_limit_exceeded';
  return (
    <p className="small">
      Rejected {counted(refused, 'request')} of {howMany(refused_people, 'user')} today.{' '}
      <To page={['/requests', { error, since }]}>Show rejected requests</To>
    </p>
  );
}

/** Limits page: highest utilization, rules, overrides, grants; for developers their own limits. */
export function Page() {
  const [search, change] = usePageSearch();
  const { time_zone, person } = useSession();
  const of: Keys = person.is_admin ? filtersIn(search, SCOPE_FILTERS) : {};
  const is_of_all = person.is_admin && Object.keys(of).length === 0;
  const granted = person.is_admin ? counterOf(search.grant ?? '') : undefined;
  const what = person.is_admin
    ? 'Limits, their utilization, overrides and temporary grants.'
    : 'Your limits and what is left.';
  return (
    <>
      <PageHead title="Limits" intro={`${what} Days begin at midnight, ${time_zone}.`} />
      {person.is_admin && <Filters of={SCOPE_FILTERS} clear="Show all" resets={{ after: undefined }} />}
      {is_of_all ? (
        <>
          <Limits
            title="Highest utilization"
            chosen={nearest}
            empty={['No limited usage yet', 'Limits appear here with the first request.']}
          />
          <Rules />
          <Limits
            title="Changed at run time"
            chosen={changed}
            empty={['No changes', 'All limits are those of gateway.yaml.']}
          />
        </>
      ) : (
        <Limits
          title={person.is_admin ? whoseWords(of) : 'Yours'}
          of={of}
          empty={['Nothing counted yet', 'There is no usage in the current windows, and no limit applies.']}
        />
      )}
      <Grants of={of} />
      {granted !== undefined && (
        <GrantDialog
          key={search.grant}
          counter={granted}
          amount={search.amount ?? ''}
          onClose={() => change({ grant: undefined, amount: undefined })}
        />
      )}
    </>
  );
}

const SPANS: readonly Option[] = [
  ['86400', 'for a day'],
  ['3600', 'for an hour'],
  ['259200', 'for 3 days'],
  ['604800', 'for a week'],
  ['2592000', 'for 30 days'],
];

const moreWords = (unit: Counter['unit']) => `Additional amount (${unit === 'usd' ? 'USD' : unit})`;
const REASON = { required: true, hint: 'Recorded in the audit log.' };

function GrantDialog({ counter, amount, onClose }: { counter: Counter; amount: string; onClose: () => void }) {
  const { of, window, unit } = counter;
  const { time_zone } = useSession();
  const reset_on = isSpendWindow(window) ? firstDay(window, today(time_zone), 1) : undefined;
  const spans = reset_on === undefined ? SPANS : [['', `until ${reset_on} (reset)`] as const, ...SPANS];
  return (
    <OperationForm
      operation="grantLimit"
      input={({ expires_in_seconds }) => ({
        ...of,
        window,
        ...(expires_in_seconds === '' && { expires_on: reset_on }),
      })}
      fields={{
        [unit]: { label: moreWords(unit), required: true, initial: amount.trim() },
        expires_in_seconds: { label: 'Duration', options: spans },
        reason: REASON,
      }}
      done={({ grant: { amount: granted, expires_at } }) => {
        const end = longTime(new Date(expires_at), time_zone);
        return [`Granted ${amountWords(granted, unit)} more for ${counterWords(counter)} until ${end}.`];
      }}
      onClose={onClose}
      title="Grant more temporarily"
      action={({ [unit]: much }) => (Number(much) > 0 ? `Grant ${amountWords(Number(much), unit)}` : 'Grant more')}
    >
      {(field, { [unit]: much }) => (
        <>
          <p>{say`Limit of ${strong(whoseWords(of))} ${perWindow(window)}`}</p>
          <div className="fitted">{[unit, 'expires_in_seconds'].map(field)}</div>
          {field('reason')}
          <div className="stack boxed" aria-live="polite">
            {Number(much) > 0 ? (
              <Preview of={{ ...of, window, [unit]: Number(much) }} />
            ) : (
              <p className="soft small">Fill in the amount to see a preview.</p>
            )}
          </div>
        </>
      )}
    </OperationForm>
  );
}

function Preview({ of }: { of: InputOf<'previewGrant'> }) {
  return (
    <Query operation="previewGrant" input={of}>
      {({ before, after, notes }) => (
        <div className="stack">
          <Used limit={before} label="Now" />
          <Used limit={after} label="With the grant" />
          {after.forecast !== null && <p className="soft small">{after.forecast.words}</p>}
          {notes.map((note) => (
            <p key={note} className="limits-note note row">
              <Icon name="alarm" />
              {note}
            </p>
          ))}
        </div>
      )}
    </Query>
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
      done={(_, sent) => [`The limit of ${whose} is now ${amountWords(sent[unit]!, unit)}.`]}
      title={`Set limit of ${whose}`}
      action="Set limit"
    >
      <p className="soft">
        Overrides gateway.yaml for this counter until you remove the override. For a limited time, grant more instead.
      </p>
      <Used limit={limit} label="Now" />
      <Origin limit={limit} />
    </OperationForm>
  );
}

/** The limit that a new one replaces; grants stay on top. */
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
  if (amount === 0) return 'A limit of 0 rejects every request.';
  const granted = grants.reduce((sum, grant) => sum + grant.amount, 0);
  if (window === 'open' || amount + granted > spent + reserved) return '';
  return `${amountWords(spent + reserved, unit)} are already used: requests will be rejected until the reset.`;
}

function ClearDialog({ limit }: { limit: LimitInForce }) {
  const { of, window, unit, set, rules } = limit;
  const whose = counterWords(limit);
  return (
    <OperationForm
      operation="clearLimit"
      input={{ ...of, window, unit }}
      done={({ now }) => {
        const limit_now = now.limit === null ? 'unlimited' : amountWords(now.limit, unit);
        return [`Removed the override of ${whose}: ${limit_now} now.`];
      }}
      title={`Remove override of ${whose}`}
      action="Remove override"
      kind="danger"
    >
      {set !== null && (
        <p>{`It was set to ${amountWords(set.limit, unit)} by ${set.set_by}${set.reason === null ? '' : `: ${set.reason}`}.`}</p>
      )}
      {rules.every(({ mode }) => mode !== 'enforce') ? (
        <p>gateway.yaml has no limit for it: from the next request it is unlimited.</p>
      ) : (
        <>
          <p>From the next request, gateway.yaml applies again:</p>
          <Origin limit={{ ...limit, set: null, grants: [] }} />
        </>
      )}
    </OperationForm>
  );
}

/** Text of a request to an administrator, with a link to the form; nothing is sent from here. */
function AskDialog({ limit: counter }: { limit: LimitInForce }) {
  const [typed, setTyped] = useState('');
  const [reason, setReason] = useState('');
  const { public_url, person } = useSession();
  const { unit, spent, limit } = counter;
  const much = Number(typed) > 0 ? typed.trim() : undefined;
  const more = much === undefined ? 'more' : `${amountWords(Number(much), unit)} more`;
  const used = limit === null ? '' : ` ${amountWords(spent, unit)} of ${amountWords(limit, unit)} are used.`;
  const why = reason === '' ? '' : ` Reason: ${reason}`;
  const grant = new URLSearchParams({ grant: counterId(counter), ...(much !== undefined && { amount: much }) });
  const text = `${person.name ?? person.email} asks for ${more} for ${counterWords(counter)}.${used}${why}\n${public_url}/console/limits?${grant}`;
  return (
    <Panel title="Ask for more">
      <p className="soft">Send this to an administrator. The link opens the form for them.</p>
      <div className="fitted">
        <Field label={moreWords(unit)} inputMode="decimal" value={typed} onValue={setTyped} />
        <Field label="Reason" value={reason} onValue={setReason} />
      </div>
      <CopyBlock text={text} label="Message to an administrator" />
    </Panel>
  );
}
