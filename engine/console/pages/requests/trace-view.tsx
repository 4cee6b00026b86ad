import { Link } from '@tanstack/react-router';
import { type ReactNode, useId } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useSession } from '../../frame/session-context.ts';
import { Badge, type Tone } from '../../parts/badge.tsx';
import { Meter } from '../../parts/meter.tsx';
import { TimeText, took } from '../../parts/times.tsx';

type Trace = AnswerOf<'getRequest'>['trace'];
type Reason = Trace['stages'][number]['reasons'][number];

const ENDS: Readonly<Record<Trace['stages'][number]['end'], readonly [words: string, tone: Tone]>> = {
  ran: ['ran', 'plain'],
  answered: ['answered', 'good'],
  skipped: ['skipped', 'plain'],
  shadow: ['shadow: only recorded', 'info'],
  refused: ['refused it', 'warn'],
  failed: ['failed', 'alarm'],
  left_out: ['failed and was left out', 'alarm'],
};

/** Every decision about a request, in the order in which it was made. */
export function TraceView({ trace, refused_by }: { trace: Trace; refused_by: string | null }) {
  const routing = trace.rules.filter(({ kind }) => kind === 'routing');
  const spending = trace.rules.filter(({ kind, held }) => kind === 'spend' && held !== null);
  return (
    <>
      <Limits trace={trace} />
      <Stages trace={trace} />
      {(trace.attempts.length > 0 || trace.dropped.length > 0) && (
        <Part title="Attempts">
          <ol className="requests-lines">
            {trace.attempts.map(({ n, words }) => (
              <li key={n}>{words}</li>
            ))}
          </ol>
          {trace.dropped.length > 0 && (
            <ul className="requests-lines soft">
              {trace.dropped.map((words) => (
                <li key={words}>Not asked: {words}</li>
              ))}
            </ul>
          )}
        </Part>
      )}
      {routing.length > 0 && (
        <Part title="Routing rules">
          <Rules
            rules={routing}
            version={trace.config}
            decided={routing.find(({ held, mode }) => held && mode === 'enforce')?.name}
          />
        </Part>
      )}
      {spending.length > 0 && (
        <Part title="Spend rules">
          <Rules rules={spending} version={trace.config} decided={refused_by ?? undefined} />
        </Part>
      )}
      {trace.shadow.length > 0 && (
        <Part title="Would have acted, but is in shadow mode">
          <ul className="requests-lines">
            {trace.shadow.map((name) => (
              <li key={name}>{name}</li>
            ))}
          </ul>
        </Part>
      )}
      <Version trace={trace} />
    </>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h3 id={id}>{title}</h3>
      {children}
    </section>
  );
}

function Limits({ trace: { limits } }: { trace: Trace }) {
  const { person } = useSession();
  if (limits.length === 0) return null;
  return (
    <Part title={limits.every(({ refused }) => refused) ? 'Limits without room' : 'Limits'}>
      <ul className="requests-limits">
        {limits.map(({ rule, scope, key, limit, spent, reserved, after, resets_at, words, changed }) => (
          <li key={`${rule} ${scope} ${key}`}>
            <Meter label={rule} words={words} share={limit > 0 ? (after ?? spent + reserved) / limit : 1} />
            {changed !== null && <p className="small">{changed}</p>}
            <p className="soft small">
              {resets_at !== null && (
                <>
                  Begins again <TimeText at={resets_at} form="long" />.{' '}
                </>
              )}
              {(scope === 'user' || scope === 'team') && person.is_admin && (
                <Link to={'/limits' as never} search={{ [scope]: key } as never}>
                  See this limit, or grant more
                </Link>
              )}
              {!person.is_admin && <Link to={'/limits' as never}>See your limits</Link>}
            </p>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Stages({ trace: { stages, pipeline } }: { trace: Trace }) {
  if (stages.length === 0) return null;
  return (
    <Part title={pipeline === null ? 'Stages' : `Stages of the pipeline ${pipeline}`}>
      <ol className="requests-stages">
        {stages.map(({ id, end, ms, condition, reasons, file, line }) => {
          const [words, tone] = ENDS[end];
          return (
            <li key={id} className={end}>
              <div className="requests-stage">
                <code>{id}</code>
                {tone === 'plain' ? <span className="soft">{words}</span> : <Badge tone={tone}>{words}</Badge>}
                <span className="requests-ms number soft">{ms === null ? '' : took(ms)}</span>
              </div>
              {condition !== null && (
                <p className="soft small">
                  only when {condition}
                  {file !== null && ` (${file}:${line})`}
                </p>
              )}
              <Reasons reasons={reasons} />
            </li>
          );
        })}
      </ol>
    </Part>
  );
}

/** The comparisons that decided. */
export function Reasons({ reasons }: { reasons: readonly Reason[] }) {
  if (reasons.length === 0) return null;
  return (
    <ul className="requests-reasons">
      {reasons.map(({ held, words }) => (
        <li key={words}>
          <strong>{held ? 'yes' : 'no'}</strong> {words}
        </li>
      ))}
    </ul>
  );
}

const HELD = (held: boolean | null) => (held === null ? 'not asked' : held ? 'applied' : 'did not apply');

function Rules({
  rules,
  version,
  decided,
}: {
  rules: Trace['rules'];
  version: string | null;
  decided: string | undefined;
}) {
  const { person } = useSession();
  return (
    <ol className="requests-rules">
      {rules.map(({ name, mode, held, condition, effect, reasons, file, line }) => (
        <li key={name} className={name === decided ? 'decided' : undefined}>
          <p>
            {name === decided ? <Badge tone="info">decided</Badge> : <span className="soft">{HELD(held)}</span>}{' '}
            <strong>{name}</strong> {mode === 'shadow' && '(shadow) '}
            {effect}
          </p>
          {condition !== 'always' && condition !== 'otherwise' && <p className="soft small">when {condition}</p>}
          <Reasons reasons={reasons} />
          {file !== null && (
            <p className="small">
              {person.is_admin ? (
                <Link to={'/config' as never} search={{ rule: name, ...(version !== null && { version }) } as never}>
                  {`${file}:${line}`}
                </Link>
              ) : (
                <span className="soft">{`${file}:${line}`}</span>
              )}
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}

function Version({ trace: { config, rules_known } }: { trace: Trace }) {
  const { person } = useSession();
  if (config === null) {
    return <p className="soft small">This record is of a time when stages and limits were not kept.</p>;
  }
  return (
    <p className="soft small">
      Decided by the configuration{' '}
      {person.is_admin && rules_known ? (
        <Link to={'/config' as never} search={{ version: config } as never}>
          <code>{config}</code>
        </Link>
      ) : (
        <code>{config}</code>
      )}
      {rules_known ? '.' : ', which is not in force any more: how its rules are worded is not known here.'}
    </p>
  );
}
