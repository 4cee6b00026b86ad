import { type ReactNode, useState } from 'react';
import type { LimitInForce, WrittenLimit } from '../../api/operations.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { CounterCard, ForWhich } from './counter-card.tsx';
import { ClearDialog, SetDialog } from './set-dialog.tsx';
import { amountsWords, counterId, type Scope, whoseWords, windowWords } from './words.ts';

const OFTEN = { every_seconds: 15 };

/** Every limit of somebody or something; without anybody named, of whoever looks. */
export function Own({ of }: { of: Partial<Record<Scope, string>> }) {
  const query = useOperation('listLimits', of, OFTEN);
  const title = Object.keys(of).length === 0 ? 'Yours' : whoseWords(of);
  return (
    <Card title={title}>
      <Loaded query={query}>
        {({ limits, written }) => (
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
      </Loaded>
    </Card>
  );
}

/** The limits of gateway.yaml that the same requests come under, and that count by something else. */
function AlsoWritten({ written }: { written: readonly WrittenLimit[] }) {
  if (written.length === 0) return null;
  return (
    <>
      <h3>Also for these requests</h3>
      <ul className="limits-origin small">
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

/** The counters nearest to their limit. */
export function Nearest() {
  const [is_long, setLong] = useState(false);
  const query = useOperation('listLimits', {}, OFTEN);
  return (
    <Card title="Nearest to their end">
      <Loaded query={query}>
        {({ limits }) => {
          const nearest = limits.filter(isUsed).toSorted((a, b) => usedShare(b) - usedShare(a));
          return (
            <>
              <LimitList limits={is_long ? nearest : nearest.slice(0, SHOWN)}>
                <EmptyState title="Nothing that is limited was spent yet">
                  Requests count here as soon as there are some.
                </EmptyState>
              </LimitList>
              {nearest.length > SHOWN && (
                <div className="limits-actions">
                  <Button kind="quiet" onClick={() => setLong(!is_long)}>
                    {is_long ? 'Show fewer' : `Show all ${nearest.length}`}
                  </Button>
                </div>
              )}
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

const SHOWN = 6;

/** The counters whose limit was set, or that have room granted. */
export function Changed() {
  const query = useOperation('listLimits', {}, OFTEN);
  return (
    <Card title="Changed by hand">
      <Loaded query={query}>
        {({ limits }) => (
          <LimitList limits={limits.filter(isChanged)}>
            <EmptyState title="Everything is as gateway.yaml says">
              No limit was set, and nothing is granted.
            </EmptyState>
          </LimitList>
        )}
      </Loaded>
    </Card>
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
  const whose = `${whoseWords(limit.of)} ${windowWords(limit.window)}`;
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
    <Button
      aria-label={`Ask for more of ${whoseWords(limit.of)} ${windowWords(limit.window)}`}
      onClick={() => change({ ask: counterId(limit) })}
    >
      Ask for more
    </Button>
  );
}
