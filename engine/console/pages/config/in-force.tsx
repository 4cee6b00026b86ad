import { useMemo } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { Badge } from '../../parts/badge.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Card } from '../../parts/page-head.tsx';
import { TimeText } from '../../parts/times.tsx';
import { Findings } from './findings-view.tsx';
import { CAUSES, type FoundLoad, Here } from './links.tsx';

type State = AnswerOf<'getConfig'>;
type Replica = State['replicas'][number];

/** What runs now, on which replica since when, and what keeps a newer one from running. */
export function InForce({ state }: { readonly state: State }) {
  const { replicas, version, failing } = state;
  const versions = new Set(replicas.map((each) => each.version));
  const here = replicas.find(({ name }) => name === state.replica) ?? replicas[0];
  return (
    <>
      {failing !== null && <Failing load={failing} version={version} />}
      {versions.size > 1 && (
        <p className="config-note">
          <Icon name="alarm" />
          <span>Replicas run {versions.size} versions. During a rollout that is so for a while.</span>
        </p>
      )}
      {replicas.length === 1 && here !== undefined ? (
        <p className="config-state">
          <Badge tone="good">In force</Badge>
          <span>
            Version <VersionLink version={here.version} />, loaded <TimeText at={here.loaded_at} form="relative" />{' '}
            because {CAUSES[here.cause]}, on {here.name}.
          </span>
        </p>
      ) : (
        replicas.length > 1 && (
          <Card title="Replicas">
            <Replicas state={state} />
          </Card>
        )
      )}
    </>
  );
}

function VersionLink({ version }: { readonly version: string }) {
  return (
    <Here to={{ version, view: 'rules' }}>
      <code>{version}</code>
    </Here>
  );
}

function Failing({ load, version }: { readonly load: FoundLoad; readonly version: string | null }) {
  const { at, findings, problem, replica } = load;
  return (
    <section className="problem" aria-label="The last reload failed">
      <Icon name="alarm" />
      <div className="config-failing">
        <h2>The last reload failed</h2>
        <p>
          <TimeText at={at} form="long" />, on {replica}. What was in force before it still is, so requests are served
          as before. Correct the files; the gateway notices.
        </p>
        {problem !== null && <p>{problem}</p>}
        <Findings findings={findings.slice(0, 1)} version={load.version} is_brief />
        {load.version !== null && (
          <p>
            {findings.length > 1 && (
              <>
                <Here to={{ version: load.version, view: 'findings' }}>All {findings.length} findings</Here>,{' '}
              </>
            )}
            {version !== null && (
              <Here to={{ view: 'loads', from: version, to: load.version }}>what differs from the one in force</Here>
            )}
          </p>
        )}
      </div>
    </section>
  );
}

function Replicas({ state }: { readonly state: State }) {
  const { replica, version, replicas } = state;
  const columns = useMemo((): readonly Column<Replica>[] => {
    return [
      {
        id: 'name',
        title: 'Replica',
        cell: ({ name }) => (
          <>
            {name} {name === replica && <Badge>Answers you</Badge>}
          </>
        ),
        sort: ({ name }) => name,
      },
      {
        id: 'version',
        title: 'Version',
        cell: (each) => (
          <>
            <VersionLink version={each.version} />{' '}
            {version !== null && each.version !== version && (
              <Here to={{ view: 'loads', from: version, to: each.version }}>differs</Here>
            )}
          </>
        ),
        sort: (each) => each.version,
      },
      {
        id: 'since',
        title: 'Loaded',
        cell: (each) => <TimeText at={each.loaded_at} />,
        sort: (each) => each.loaded_at,
      },
      { id: 'cause', title: 'Because', cell: ({ cause }) => CAUSES[cause] },
      {
        id: 'state',
        title: 'Reloads',
        cell: ({ failing_since }) =>
          failing_since === null ? (
            <Badge tone="good">Work</Badge>
          ) : (
            <>
              <Badge tone="alarm">Failing</Badge> since <TimeText at={failing_since} />
            </>
          ),
      },
      { id: 'program', title: 'Program', cell: ({ program }) => program, sort: ({ program }) => program },
    ];
  }, [replica, version]);
  return (
    <DataTable
      label="What each replica runs"
      columns={columns}
      rows={replicas}
      keyOf={({ name, loaded_at }) => `${name} ${loaded_at}`}
    />
  );
}
