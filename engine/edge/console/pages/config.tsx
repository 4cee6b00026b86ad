import { type ReactNode, useMemo } from 'react';
import { type PageSearch, type ResponseOf, useOperation, usePageSearch, useSession } from '../api.ts';
import { Badge, CopyBlock, Icon, Loaded, Query } from '../parts/basic.tsx';
import { type Filter, Filters, type Option } from '../parts/field.tsx';
import { Card, EmptyState, Facts, Lines, PageHead, Tabs, To } from '../parts/page.tsx';
import { type Columns, DataTable, ListPage } from '../parts/table.tsx';
import { counted, longAt, longTime, mono, say, soft, timeAt } from '../parts/words.tsx';

type Version = ResponseOf<'getConfigVersion'>;
type Rule = NonNullable<Version['rules']>[number];
type Load = ResponseOf<'listConfigLoads'>['loads'][number];
type FoundLoad = Version['load'];

const VIEWS = {
  rules: 'Rules',
  shadow: 'Shadow rules',
  files: 'Files',
  findings: 'Findings',
  loads: 'Loads and differences',
} as const;
type View = keyof typeof VIEWS;

function viewOf({ view, rule, file, from, to }: PageSearch): View {
  if (view !== undefined && Object.hasOwn(VIEWS, view)) return view as View;
  if (rule !== undefined) return 'rules';
  if (file !== undefined) return 'files';
  return from !== undefined && to !== undefined ? 'loads' : 'rules';
}

function Here({ to, ...rest }: Omit<Parameters<typeof To>[0], 'page'> & { readonly to: PageSearch }) {
  const [{ version }] = usePageSearch();
  return <To page={['/config', { version, ...to }]} {...rest} />;
}

function Place({ file, line, version }: { file: string; line: number | null; version?: string | null }) {
  const of_version = version == null ? {} : { version };
  return (
    <p className="small">
      <Here to={{ ...of_version, view: 'files', file, ...(line !== null && { line: String(line) }) }}>
        <code>
          {file}
          {line !== null && `:${line}`}
        </code>
      </Here>
    </p>
  );
}

const ruleKey = ({ kind, name }: Pick<Rule, 'kind' | 'name'>) => `${kind}:${name}`;

const ships = (name: string) => name.startsWith('appscli/');
const hasCondition = (text: string) => text !== 'otherwise' && text !== 'always';

/** A ref that scrolls its element into view when it appears, or becomes this ref's. */
const intoView = (element: Element | null) => element?.scrollIntoView({ block: 'center' });

const CAUSES = { start: 'the gateway started', files: 'files changed', signal: 'of a SIGHUP' } as const;

function linesOf(text: string | null): readonly string[] | null {
  return text?.replace(/\n$/, '').split('\n') ?? null;
}

const linesByFile = (files: Version['files']) => new Map(files.map(({ name, text }) => [name, linesOf(text)]));

function Note({ children }: { children: ReactNode }) {
  return (
    <p className="note row boxed">
      <Icon name="info" />
      <span>{children}</span>
    </p>
  );
}

function Findings({ findings, version = null }: { findings: FoundLoad['findings']; version?: string | null }) {
  const entries = findings.map(({ code, severity, message, file, line, found, expected, help }) => (
    <div key={code} className="stack near">
      <p>
        <Badge tone={severity === 'error' ? 'alarm' : 'warn'}>{severity === 'error' ? 'Error' : 'Warning'}</Badge>{' '}
        <code>{code}</code> {message}
      </p>
      {found !== null && <p className="small">Found: {found}</p>}
      {expected !== null && <p className="small">Expected: {expected}</p>}
      {help !== null && <p className="small">What to do: {help}</p>}
      <Place file={file} line={line} version={version} />
    </div>
  ));
  return <Lines of={entries} className="bare ruled any" />;
}

type State = ResponseOf<'getConfig'>;

function VersionLink({ version }: { version: string }) {
  return (
    <Here to={{ version, view: 'rules' }}>
      <code>{version}</code>
    </Here>
  );
}

function Failing({ load, version }: { load: FoundLoad; version: string | null }) {
  const { at, findings, problem, replica } = load;
  return (
    <section className="problem" aria-label="The last reload failed">
      <Icon name="alarm" />
      <div className="stack">
        <h2>The last reload failed</h2>
        <p>
          {say`${longAt(at)}, on ${replica}. The previous configuration stays active. Correct the files; the gateway reloads them.`}
        </p>
        {problem !== null && <p>{problem}</p>}
        <Findings findings={findings.slice(0, 1)} version={load.version} />
        {load.version !== null && (
          <p className="row">
            {findings.length > 1 && (
              <Here to={{ version: load.version, view: 'findings' }}>All {findings.length} findings</Here>
            )}
            {version !== null && (
              <Here to={{ view: 'loads', from: version, to: load.version }}>Diff to the active version</Here>
            )}
          </p>
        )}
      </div>
    </section>
  );
}

function replicaColumns({ replica, version }: State): Columns<State['replicas'][number]> {
  return [
    {
      title: 'Replica',
      cell: ({ name }) => say`${name} ${name === replica && <Badge>This replica</Badge>}`,
      sort: 'name',
    },
    {
      title: 'Version',
      cell: (each) => {
        const differs = version !== null && each.version !== version && (
          <Here to={{ view: 'loads', from: version, to: each.version }}>differs</Here>
        );
        return say`${<VersionLink version={each.version} />} ${differs}`;
      },
      sort: 'version',
    },
    { title: 'Loaded', cell: 'loaded_at', sort: 'loaded_at' },
    { title: 'Because', cell: ({ cause }) => CAUSES[cause] },
    {
      title: 'Reloads',
      cell: ({ failing_since }) =>
        failing_since === null ? (
          <Badge tone="good">OK</Badge>
        ) : (
          say`${<Badge tone="alarm">Failing</Badge>} since ${timeAt(failing_since)}`
        ),
    },
    { title: 'Gateway version', cell: 'program', sort: 'program' },
  ];
}

/** Tokens of a line of YAML for highlighting; multi-line values are not recognized. */
const PIECES = new RegExp(
  [
    /(?<comment>(?<=^|\s)#.*)/,
    /(?<key>(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s[\]{},#"']+)(?=\s*:(?:\s|$)))/,
    /(?<text>"(?:[^"\\]|\\.)*"|'[^']*')/,
    /(?<number>[-+]?\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?(?=[\s[\]{},]|$))/,
    /(?<word>(?:true|false|null|~)(?=[\s[\]{},]|$))/,
    /(?<mark>[[\]{},:]|[-?|>&*!]+(?=\s|$))/,
    /(?<plain>\s+|[^\s[\]{},#"']+|.)/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'gu',
);
const CHARS_MAX = 2000;

function piecesOf(line: string): readonly (readonly [kind: string, text: string])[] {
  if (line.length > CHARS_MAX) return [['plain', line]];
  return [...line.matchAll(PIECES)].map(({ 0: text, groups }) => [
    Object.keys(groups!).find((kind) => groups![kind] !== undefined)!,
    text,
  ]);
}

interface ShownLine {
  readonly number: number;
  readonly text: string;
  /** `hunk`: the head of a part of a diff. */
  readonly kind?: 'same' | 'marked' | 'added' | 'removed' | 'hunk' | undefined;
}

const SIGNS = { same: [' ', ''], added: ['+', 'Added: '], removed: ['-', 'Removed: '] } as const;

function Line({ line: { number, text, kind } }: { line: ShownLine }) {
  if (kind === 'hunk') return <span className="config-hunk">{`${text}\n`}</span>;
  const [sign, words] = kind === undefined || kind === 'marked' ? [] : SIGNS[kind];
  return (
    <span ref={kind === 'marked' ? intoView : undefined} className={`config-line ${kind ?? ''}`}>
      <span className="config-number" aria-hidden="true">
        {number}
      </span>
      {sign !== undefined && (
        <>
          <span className="unseen">{words}</span>
          <span aria-hidden="true">{sign} </span>
        </>
      )}
      <span>
        {piecesOf(text).map(([piece, words], i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a line have no other name and never move.
          <span key={i} className={`config-yaml-${piece}`}>
            {words}
          </span>
        ))}
      </span>
      {'\n'}
    </span>
  );
}

function Text({ label, of }: { label: string; of: readonly ShownLine[] }) {
  return (
    <pre className="config-yaml" role="region" aria-label={label} tabIndex={0}>
      <code>
        {of.map((line, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name.
          <Line key={i} line={line} />
        ))}
      </code>
    </pre>
  );
}

function FilesView({ version: { files } }: { version: Version }) {
  const [{ file: selected, line }] = usePageSearch();
  const file = files.find(({ name }) => name === selected) ?? (selected === undefined ? files[0] : undefined);
  return (
    <div className="config-files">
      <nav aria-label="Files" className="config-file-list">
        <FileList title="Own files" files={files.filter(({ name }) => !ships(name))} open={file?.name} />
        <FileList title="Shipped files" files={files.filter(({ name }) => ships(name))} open={file?.name} />
      </nav>
      <Card title={file?.name ?? selected ?? 'Files'}>
        {file === undefined && <EmptyState title="File not in this version">Choose one from the list.</EmptyState>}
        {file?.text === null && (
          <p className="soft">
            Its text is not stored: it is code, a certificate or too long.
            {file.digest !== null && ` Hash of its content: ${file.digest}.`}
          </p>
        )}
        {file?.text != null && (
          <>
            <p className="soft small">As loaded. Secrets are replaced by stars.</p>
            <Text
              key={file.name}
              label={file.name}
              of={linesOf(file.text)!.map((text, i) => ({
                number: i + 1,
                text,
                kind: String(i + 1) === line ? 'marked' : undefined,
              }))}
            />
          </>
        )}
      </Card>
    </div>
  );
}

function FileList({ title, files, open }: { title: string; files: Version['files']; open: string | undefined }) {
  if (files.length === 0) return null;
  return (
    <>
      <h2>{title}</h2>
      <ul className="page-list bare any">
        {files.map(({ name }) => (
          <li key={name}>
            <Here
              to={{ view: 'files', file: name }}
              className="page-link row"
              aria-current={name === open || undefined}
            >
              {name.replace(/^appscli\//, '')}
            </Here>
          </li>
        ))}
      </ul>
    </>
  );
}

function RulesView({ version: { rules, rule_kinds, files } }: { version: Version }) {
  const [{ rule: selected }] = usePageSearch();
  const texts = useMemo(() => linesByFile(files), [files]);
  if (rules === null) {
    return (
      <EmptyState is_card title="This configuration has errors">
        See its <Here to={{ view: 'findings' }}>findings</Here>.
      </EmptyState>
    );
  }
  // By key, or by name only, as in links of other pages.
  const isSelected = (rule: Rule) => selected !== undefined && (ruleKey(rule) === selected || rule.name === selected);
  const own = rules.filter(({ file }) => !ships(file));
  const shipped = rules.filter(({ file }) => ships(file));
  const listOf = (all: readonly Rule[]) =>
    rule_kinds.map(({ kind, title }) => {
      const of_kind = all.filter((rule) => rule.kind === kind);
      return (
        of_kind.length > 0 && (
          <Card key={kind} title={title}>
            <ol className="bare ruled">
              {of_kind.map((rule, i) => (
                <RuleItem
                  // biome-ignore lint/suspicious/noArrayIndexKey: several limits of one entry share their name.
                  key={`${ruleKey(rule)} ${i}`}
                  rule={rule}
                  lines={texts.get(rule.file) ?? null}
                  is_selected={isSelected(rule)}
                />
              ))}
            </ol>
          </Card>
        )
      );
    });
  return (
    <div className="stack apart">
      {selected !== undefined && !rules.some(isSelected) && <Note>Rule {selected} is not in this version.</Note>}
      {own.length === 0 && (
        <EmptyState is_card title="No own rules">
          Write routing rules and limits in gateway.yaml, conditions of stages in pipelines.
        </EmptyState>
      )}
      {listOf(own)}
      {shipped.length > 0 && (
        <details open={shipped.some(isSelected)}>
          <summary>{`${shipped.length} shipped rules`}</summary>
          <div className="stack apart">{listOf(shipped)}</div>
        </details>
      )}
    </div>
  );
}

interface RuleText {
  readonly rule: Rule;
  readonly lines: readonly string[] | null;
}

function RuleItem({ rule, lines, is_selected }: RuleText & { is_selected: boolean }) {
  return (
    <li
      ref={is_selected ? intoView : undefined}
      className={is_selected ? 'config-rule selected' : 'config-rule'}
      aria-current={is_selected || undefined}
    >
      <RuleWords rule={rule} />
      <RuleLines rule={rule} lines={lines} />
    </li>
  );
}

function RuleWords({ rule }: { rule: Rule }) {
  const { name, mode, text, effect, file, line } = rule;
  const has_condition = hasCondition(text);
  return (
    <div className="stack near any">
      <h3 className="row">
        <Here to={{ rule: ruleKey(rule) }} title="Link to this rule">
          {name}
        </Here>
        {mode === 'shadow' && <Badge tone="info">Shadow</Badge>}
      </h3>
      <p>
        {!has_condition && `${text.charAt(0).toUpperCase()}${text.slice(1)} `}
        {effect}
        {has_condition && say` ${soft('when')} ${text}`}
      </p>
      <Place file={file} line={line} />
    </div>
  );
}

function RuleLines({ rule: { name, first_line, last_line }, lines }: RuleText) {
  if (lines === null) return <p className="soft small">The text of this file is not stored.</p>;
  const cut = lines.slice(first_line - 1, last_line);
  const indent = /^ */.exec(cut[0] ?? '')![0].length;
  const shown = cut.map((line, i) => {
    const text = line.slice(0, indent).trim() === '' ? line.slice(indent) : line;
    return { number: first_line + i, text };
  });
  return <Text label={`YAML of ${name}`} of={shown} />;
}

type ShadowRule = ResponseOf<'listShadowRules'>['rules'][number];

function ShadowView({ files }: { files: Version['files'] }) {
  const texts = linesByFile(files);
  return (
    <Query operation="listShadowRules" every_seconds={60}>
      {({ rules, since }) =>
        rules.length === 0 ? (
          <EmptyState is_card title="No rule is in shadow mode">
            A routing rule, limit or stage with <code>mode: shadow</code> is evaluated but not enforced. This page shows
            what it would have changed.
          </EmptyState>
        ) : (
          <div className="stack apart">
            <p className="soft small">{say`From audit records since ${longAt(since)}.`}</p>
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
    </Query>
  );
}

function ShadowCard({ rule, lines }: { rule: ShadowRule; lines: readonly string[] | null }) {
  const { requests, upstreams, last_at, last_request_id: request, patch, name, recorded_as } = rule;
  const shown = request !== null && <To page={['/requests', { request }]}>Show the request</To>;
  return (
    <Card>
      <div className="config-rule">
        <div className="stack">
          <RuleWords rule={rule} />
          <p>
            <span className="figure">{requests.toLocaleString('en')}</span>
            {wouldHave(rule)} in the last seven days
          </p>
          <Facts
            of={{
              Upstreams: upstreams
                .map(({ upstream, requests: each }) => `${upstream ?? 'no upstream'}: ${each.toLocaleString('en')}`)
                .join(', '),
              'Last match': last_at !== null && say`${timeAt(last_at)} ${shown}`,
              'Recorded as': <code>{recorded_as}</code>,
            }}
          />
        </div>
        <div className="stack">
          <RuleLines rule={rule} lines={lines} />
          <details className="stack">
            <summary>Enforce</summary>
            {patch === null ? (
              <p>
                Remove <code>mode: shadow</code> in this file, or where its fragment is used. A patch is not available.
              </p>
            ) : (
              <>
                <p>
                  Apply this patch in the directory of gateway.yaml with <code>git apply -p1</code> or{' '}
                  <code>patch -p1</code>; the gateway reloads it.
                </p>
                <CopyBlock text={patch} label={`Patch that enforces ${name}`} />
              </>
            )}
          </details>
        </div>
      </div>
    </Card>
  );
}

/** Meaning of the count: routing rules count diverted requests, limits rejected ones. */
function wouldHave({ kind, requests }: ShadowRule): string {
  const noun = requests === 1 ? 'request' : 'requests';
  if (kind === 'routing') return `${noun} would have been routed elsewhere`;
  if (kind === 'spend') return `${noun} would have been rejected`;
  return kind === 'on_error' ? `${noun} would have received the response of this clause` : `${noun} would have matched`;
}

type Diff = ResponseOf<'diffConfigVersions'>;
type FileDiff = Diff['files'][number];

function DiffView({ from, to }: { from: string; to: string }) {
  return (
    <Query operation="diffConfigVersions" input={{ from, to }}>
      {({ files, rules }) => (
        <div className="stack apart">
          {files.length === 0 ? <EmptyState is_card title="No differences" /> : <RuleChanges rules={rules} />}
          {files.map((file) => (
            <FileChange key={file.name} file={file} />
          ))}
        </div>
      )}
    </Query>
  );
}

function RuleChanges({ rules }: { rules: Diff['rules'] }) {
  return (
    <Card title="Rules">
      {rules === null && <p className="soft">Not available: one of the versions has errors.</p>}
      {rules?.length === 0 && <p className="soft">No changes.</p>}
      <Lines
        className="bare ruled any"
        of={(rules ?? []).map(({ before, after }) => (
          <div key={(after ?? before)!.name} className="stack near">
            <h3>
              {(after ?? before)!.name}{' '}
              <Badge tone={after === null ? 'warn' : 'info'}>
                {before === null ? 'Added' : after === null ? 'Removed' : 'Changed'}
              </Badge>
            </h3>
            {before !== null && <p className={after === null ? '' : 'soft struck'}>{wordsOf('Before: ', before)}</p>}
            {after !== null && <p>{wordsOf(before === null ? '' : 'After: ', after)}</p>}
          </div>
        ))}
      />
    </Card>
  );
}

function wordsOf(begin: string, { effect, text, mode }: Rule): string {
  const when = hasCondition(text) ? `when ${text}` : text;
  return `${begin}${effect}, ${when}${mode === 'shadow' ? ' (shadow)' : ''}`;
}

const CHANGES = { added: 'Added', removed: 'Removed', changed: 'Changed' } as const;

function FileChange({ file: { name, change, hunks } }: { file: FileDiff }) {
  return (
    <Card title={name} actions={<Badge tone={change === 'removed' ? 'warn' : 'info'}>{CHANGES[change]}</Badge>}>
      {hunks === null && <p className="soft">No diff: it is code, too long or too different.</p>}
      {hunks !== null && hunks.length > 0 && <Text label={`Diff of ${name}`} of={hunks.flatMap(hunkLines)} />}
    </Card>
  );
}

function hunkLines(hunk: NonNullable<FileDiff['hunks']>[number]): readonly ShownLine[] {
  let [old_line, new_line] = [hunk.old_line, hunk.new_line];
  const lines = hunk.lines.map(({ kind, text }) => {
    const number = kind === 'removed' ? old_line : new_line;
    if (kind !== 'added') old_line++;
    if (kind !== 'removed') new_line++;
    return { kind, text, number };
  });
  return [{ kind: 'hunk', number: hunk.new_line, text: `Line ${hunk.new_line}` }, ...lines];
}

const PAGE = 50;

function LoadsView() {
  const [{ before, from, to }] = usePageSearch();
  // The list below has the same query, so both share one request.
  const { data } = useOperation('listConfigLoads', { limit: PAGE, before: before as never });
  const loads = data?.loads ?? [];
  return (
    <div className="stack apart">
      <Compare loads={loads} />
      {from !== undefined && to !== undefined && <DiffView from={from} to={to} />}
      <ListPage
        operation="listConfigLoads"
        title="Loads"
        page={PAGE}
        columns={loadColumns(loads)}
        empty={['No loads yet', 'Each start and reload of a gateway with this database appears here.']}
      />
      <p className="soft small">Kept for 90 days: the last 50 versions and 1000 loads.</p>
    </div>
  );
}

function loadColumns(loads: readonly Load[]): Columns<Load> {
  return [
    { title: 'When', cell: 'at', sort: 'at' },
    {
      title: 'Outcome',
      cell: ({ failed, needs_restart }) =>
        failed ? (
          <Badge tone="alarm">Failed</Badge>
        ) : needs_restart.length > 0 ? (
          <Badge tone="warn">Loaded, needs a restart</Badge>
        ) : (
          <Badge tone="good">Loaded</Badge>
        ),
    },
    { title: 'Because', cell: ({ cause }) => CAUSES[cause] },
    {
      title: 'Version',
      cell: ({ version }) => (version === null ? 'unreadable' : <VersionLink version={version} />),
    },
    { title: 'Changes', cell: (load) => <Changed load={load} loads={loads} /> },
    {
      title: 'Findings',
      cell: ({ version, errors, warnings, problem }) => {
        if (errors + warnings === 0) return problem ?? 'none';
        const words = errors > 0 ? counted(errors, 'error') : counted(warnings, 'warning');
        return version === null ? words : <Here to={{ version, view: 'findings' }}>{words}</Here>;
      },
    },
    { title: 'Replica', cell: 'replica', sort: 'replica' },
  ];
}

function Changed({ load, loads }: { load: Load; loads: readonly Load[] }) {
  const { id, version, changed, needs_restart } = load;
  const earlier = loads.find((each) => each.id < id && !each.failed && each.version !== null);
  const differs = version !== null && earlier !== undefined && earlier.version !== version;
  const words = changed.length === 0 ? (differs ? 'other files' : 'none') : changed.join(', ');
  return (
    <>
      {differs ? (
        <Here to={{ view: 'loads', from: earlier.version!, to: version }} title="Compare with the previous version">
          {words}
        </Here>
      ) : (
        words
      )}
      {needs_restart.length > 0 && <p className="small">Needs a restart: {needs_restart.join(', ')}</p>}
    </>
  );
}

function Compare({ loads }: { loads: readonly Load[] }) {
  const [search] = usePageSearch();
  const { time_zone } = useSession();
  const versions = new Map(loads.toReversed().map((load) => [load.version, load]));
  const options = [...versions.values()].toReversed().flatMap(({ version, at, failed }): Option[] => {
    if (version === null) return [];
    return [[version, `${version}, loaded ${longTime(new Date(at), time_zone)}${failed ? ' (failed)' : ''}`]];
  });
  const filter = (name: 'from' | 'to', label: string): Filter => {
    const selected = search[name];
    const more: readonly Option[] = selected === undefined || versions.has(selected) ? [] : [selected];
    return {
      name,
      label,
      options: [['', 'Choose a version'], ...more, ...options],
      searchFor: (version) => ({ view: 'loads', [name]: version }),
    };
  };
  return <Filters of={[filter('from', 'Compare'), filter('to', 'with')]} />;
}

/** Configuration page: rules, files, findings, loads and diffs, shadow rules. */
export function Page() {
  const [search] = usePageSearch();
  return (
    <>
      <PageHead title="Configuration" intro="The loaded configuration, read-only. Change it in its files." />
      <Query operation="getConfig" every_seconds={15}>
        {(response) => {
          const version = search.version ?? response.version;
          return version === null ? (
            <EmptyState is_card title="No loads yet">
              A gateway records its configuration within seconds. Is its database reachable?
            </EmptyState>
          ) : (
            <div className="stack apart">
              {response.failing !== null && <Failing load={response.failing} version={response.version} />}
              {response.replicas.length > 0 && (
                <Card title="Replicas">
                  <DataTable
                    label="Versions of the replicas"
                    columns={replicaColumns(response)}
                    rows={response.replicas}
                    keyOf={({ name, loaded_at }) => `${name} ${loaded_at}`}
                  />
                </Card>
              )}
              <VersionViews name={version} active={response.version} />
            </div>
          );
        }}
      </Query>
    </>
  );
}

function VersionViews({ name, active }: { name: string; active: string | null }) {
  const [search] = usePageSearch();
  const version = useOperation('getConfigVersion', { version: name });
  const view = viewOf(search);
  return (
    <>
      <Tabs
        label="Views of the configuration"
        path="/config"
        tabs={Object.entries(VIEWS).map(([each, text]) => ({
          text,
          search: { version: search.version, view: each },
          is_shown: each === view,
        }))}
      />
      {view === 'loads' ? (
        <LoadsView />
      ) : (
        <>
          {version.error !== null && search.version !== undefined && (
            <Note>
              This URL is for version <code>{search.version}</code>.{' '}
              <Here to={{ version: undefined, view }}>Show the active version</Here>.
            </Note>
          )}
          <Loaded query={version}>
            {(found) => (
              <div className="stack apart">
                {found.version !== active && view !== 'shadow' && <OtherVersion version={found} active={active} />}
                {view === 'rules' && <RulesView version={found} />}
                {view === 'files' && <FilesView version={found} />}
                {view === 'findings' && <FindingsView load={found.load} />}
                {view === 'shadow' && <ShadowView files={found.files} />}
              </div>
            )}
          </Loaded>
        </>
      )}
    </>
  );
}

function FindingsView({ load: { findings, problem } }: { load: FoundLoad }) {
  return (
    <Card>
      {problem !== null && <p>{problem}</p>}
      {findings.length === 0 && problem === null && (
        <EmptyState title="No findings">Errors and warnings of "appscli check" appear here.</EmptyState>
      )}
      <Findings findings={findings} />
    </Card>
  );
}

function OtherVersion({ version: { version, load }, active }: { version: Version; active: string | null }) {
  const state = load.failed ? 'which failed to load' : 'which is not active';
  const compare = active !== null && (
    <Here to={{ view: 'loads', from: active, to: version }}>Compare it with the active version</Here>
  );
  const show = <Here to={{ version: undefined }}>show the active version</Here>;
  return (
    <Note>{say`This is version ${mono(version)}, ${state}. ${compare !== false && say`${compare} or ${show}.`}`}</Note>
  );
}
