import { Link } from '@tanstack/react-router';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { CopyBlock } from '../../parts/copy.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { linesByFile, ruleKey, type Version } from './links.tsx';
import { RuleText, RuleWords } from './rules-view.tsx';

type ShadowRule = AnswerOf<'listShadowRules'>['rules'][number];

/** Rules in shadow mode: what each would have done, and what puts it in force. */
export function ShadowView({ files }: { readonly files: Version['files'] }) {
  const shadows = useOperation('listShadowRules', {}, { every_seconds: 60 });
  const texts = linesByFile(files);
  return (
    <Loaded query={shadows}>
      {({ rules, since }) =>
        rules.length === 0 ? (
          <Card>
            <EmptyState title="No rule is in shadow mode">
              <p>
                With <code>mode: shadow</code> a rule for routing, a limit or a stage is only recorded. After some days
                this page says what it would have changed.
              </p>
            </EmptyState>
          </Card>
        ) : (
          <div className="config-view">
            <p className="soft small">
              Counted since <TimeText at={since} form="long" />, from audit records.
            </p>
            {rules.map((rule) => (
              <ShadowCard
                key={`${ruleKey(rule)} ${rule.file} ${rule.line}`}
                rule={rule}
                lines={texts.get(rule.file) ?? null}
              />
            ))}
          </div>
        )
      }
    </Loaded>
  );
}

function ShadowCard({ rule, lines }: { readonly rule: ShadowRule; readonly lines: readonly string[] | null }) {
  const { requests, upstreams, last_at, last_request_id, patch, name, recorded_as } = rule;
  return (
    <Card>
      <div className="config-rule">
        <div className="config-shadow">
          <RuleWords rule={rule} />
          <p>
            <span className="figure">{requests.toLocaleString('en')}</span>
            {wouldHave(rule)} in the last seven days
          </p>
          <dl>
            {upstreams.length > 0 && (
              <>
                <dt>Went to</dt>
                <dd>
                  {upstreams
                    .map(({ upstream, requests: each }) => `${upstream ?? 'no upstream'}: ${each.toLocaleString('en')}`)
                    .join(', ')}
                </dd>
              </>
            )}
            {last_at !== null && (
              <>
                <dt>Last time</dt>
                <dd>
                  <TimeText at={last_at} />{' '}
                  {last_request_id !== null && (
                    <Link to={'/requests' as never} search={{ request: last_request_id } as never}>
                      Show the request
                    </Link>
                  )}
                </dd>
              </>
            )}
            <dt>Recorded as</dt>
            <dd>
              <code>{recorded_as}</code>
            </dd>
          </dl>
        </div>
        <div className="config-shadow">
          <RuleText rule={rule} lines={lines} />
          <details className="config-promote">
            <summary>Put it in force</summary>
            {patch === null ? (
              <p>
                Take <code>mode: shadow</code> out where this is written, or where its fragment is used: no change can
                be prepared here.
              </p>
            ) : (
              <>
                <p>
                  Configuration stays in files. Apply this change beside gateway.yaml with <code>git apply -p1</code> or{' '}
                  <code>patch -p1</code>; the gateway notices it.
                </p>
                <CopyBlock text={patch} label={`The change that puts ${name} in force`} />
              </>
            )}
          </details>
        </div>
      </div>
    </Card>
  );
}

/** What the count is of: a route is recorded only where it leads elsewhere, a limit only where it has no room. */
function wouldHave({ kind, requests }: ShadowRule): string {
  const those = requests === 1 ? 'request' : 'requests';
  if (kind === 'routing') return `${those} would have gone elsewhere`;
  if (kind === 'spend') return `${those} would have been refused`;
  return kind === 'on_error' ? `${those} would have been answered by it` : `${those} would have met it`;
}
