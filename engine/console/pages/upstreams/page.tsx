import './upstreams.css';
import { useMemo, useState } from 'react';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { SelectField } from '../../parts/field.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded, ProblemBox } from '../../parts/states.tsx';
import { DrainDialog, ResumeDialog } from './drain-dialog.tsx';
import { TroubleList } from './trouble-list.tsx';
import { UpstreamCard } from './upstream-card.tsx';

const WINDOWS = [
  { value: 'hour', text: 'Last hour' },
  { value: 'day', text: 'Last day' },
];

/** Where requests go: how each upstream is, what went there and came of it, and the way to take one out. */
export function Page() {
  const [{ window: shown }, change] = usePageSearch();
  const window = shown === 'day' ? 'day' : 'hour';
  const states = useOperation('listUpstreams', {}, { every_seconds: 5 });
  const traffic = useOperation('getUpstreamTraffic', { window }, { every_seconds: 30 });
  const [asked, ask] = useState<{ readonly about: string; readonly for: 'drain' | 'resume' }>();
  const names = useMemo(() => states.data?.upstreams.map(({ name }) => name) ?? [], [states.data]);
  const close = () => ask(undefined);
  const about = states.data?.upstreams.find(({ name }) => name === asked?.about);
  return (
    <>
      <PageHead title="Upstreams" intro="Where requests go, how each of them is, and what came of it.">
        <SelectField
          label="Traffic of"
          options={WINDOWS}
          value={window}
          onChange={(event) => change({ window: event.target.value === 'hour' ? undefined : event.target.value })}
        />
      </PageHead>
      <Loaded query={states} lines={8}>
        {({ replica, upstreams }) => (
          <div className="upstreams">
            <p className="soft small">
              {replica === null ? (
                'No gateway is asked: only what is drained is known.'
              ) : (
                <>
                  States as the replica <code>{replica}</code> sees them, asked again every 5 seconds. What is drained
                  holds for all; traffic is that of all replicas, by the ledger.
                </>
              )}
            </p>
            {traffic.error !== null && <ProblemBox problem={traffic.error} onRetry={() => void traffic.refetch()} />}
            {upstreams.length === 0 && (
              <EmptyState title="There are no upstreams.">Name them under upstreams in gateway.yaml.</EmptyState>
            )}
            {upstreams.map((upstream) => (
              <UpstreamCard
                key={upstream.name}
                upstream={upstream}
                traffic={traffic.data?.upstreams.find((each) => each.upstream === upstream.name)}
                span={traffic.data}
                onDrain={() => ask({ about: upstream.name, for: 'drain' })}
                onResume={() => ask({ about: upstream.name, for: 'resume' })}
              />
            ))}
          </div>
        )}
      </Loaded>
      <TroubleList names={names} />
      {about !== undefined && asked?.for === 'drain' && <DrainDialog upstream={about} onClose={close} />}
      {about !== undefined && asked?.for === 'resume' && <ResumeDialog upstream={about} onClose={close} />}
    </>
  );
}
