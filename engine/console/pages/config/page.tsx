import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { Icon } from '../../parts/icon.tsx';
import { Card, PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { FilesView } from './files-view.tsx';
import { FindingsView } from './findings-view.tsx';
import { InForce } from './in-force.tsx';
import { Here, type Version, VIEWS, type View, viewOf } from './links.tsx';
import { LoadsView } from './loads-view.tsx';
import { RulesView } from './rules-view.tsx';
import { ShadowView } from './shadow-view.tsx';
import './config.css';

type State = AnswerOf<'getConfig'>;

/** What gateways loaded and run: rules in words beside their files, what each reload changed, and rules in shadow mode. */
export function Page() {
  const state = useOperation('getConfig', {}, { every_seconds: 15 });
  return (
    <>
      <PageHead
        title="Configuration"
        intro="What the gateway loaded and runs. It is changed in its files; nothing here changes it."
      />
      <Loaded query={state} lines={8}>
        {(answer) => <Answered state={answer} />}
      </Loaded>
    </>
  );
}

function Answered({ state }: { readonly state: State }) {
  const [search] = usePageSearch();
  const asked = search.version ?? state.version;
  if (asked === null) {
    return (
      <Card>
        <EmptyState title="Nothing was loaded yet">
          <p>A gateway writes down what it loads within moments. Is its database reachable?</p>
        </EmptyState>
      </Card>
    );
  }
  return (
    <div className="config-page">
      <InForce state={state} />
      <VersionViews asked={asked} in_force={state.version} />
    </div>
  );
}

const TITLES: Readonly<Record<View, string>> = {
  rules: 'Rules',
  shadow: 'Shadow rules',
  files: 'Files',
  findings: 'Findings',
  loads: 'Loads and differences',
};

function VersionViews({ asked, in_force }: { readonly asked: string; readonly in_force: string | null }) {
  const [search] = usePageSearch();
  const version = useOperation('getConfigVersion', { version: asked });
  const view = viewOf(search);
  return (
    <>
      <Tabs
        label="Views of the configuration"
        path="/config"
        tabs={VIEWS.map((each) => ({
          text: TITLES[each],
          search: { version: search.version, view: each },
          is_shown: each === view,
        }))}
      />
      {view === 'loads' ? (
        <LoadsView />
      ) : (
        <>
          {version.error !== null && search.version !== undefined && (
            <p className="config-note">
              <Icon name="info" />
              <span>
                This address names the version <code>{search.version}</code>.{' '}
                <Here to={{ version: undefined, view }}>Look at what runs</Here>.
              </span>
            </p>
          )}
          <Loaded query={version} lines={8}>
            {(found) => (
              <div className="config-view">
                {found.version !== in_force && view !== 'shadow' && (
                  <OtherVersion version={found} in_force={in_force} />
                )}
                <VersionView view={view} version={found} />
              </div>
            )}
          </Loaded>
        </>
      )}
    </>
  );
}

function VersionView({ view, version }: { readonly view: Exclude<View, 'loads'>; readonly version: Version }) {
  if (view === 'rules') return <RulesView version={version} />;
  if (view === 'files') return <FilesView version={version} />;
  if (view === 'findings') return <FindingsView load={version.load} />;
  return <ShadowView files={version.files} />;
}

/** That one looks at something that does not run. */
function OtherVersion({ version, in_force }: { readonly version: Version; readonly in_force: string | null }) {
  return (
    <p className="config-note">
      <Icon name="info" />
      <span>
        This is version <code>{version.version}</code>
        {version.load.failed ? ', which could not be loaded' : ', which is not what runs here'}.{' '}
        {in_force !== null && (
          <>
            <Here to={{ view: 'loads', from: in_force, to: version.version }}>Compare it with what runs</Here> or{' '}
            <Here to={{ version: undefined }}>look at what runs</Here>.
          </>
        )}
      </span>
    </p>
  );
}
