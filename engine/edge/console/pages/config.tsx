import { type ReactNode, useEffect, useMemo, useRef } from 'react';
import { type AnswerOf, type PageSearch, useOperation, usePageSearch, useSession } from '../api.ts';
import {
  Badge,
  Button,
  Card,
  CopyBlock,
  counted,
  EmptyState,
  Facts,
  Icon,
  Loaded,
  longTime,
  PageHead,
  say,
  soft,
  Tabs,
  TimeText,
  To,
  timeAt,
} from '../parts/basic.tsx';
import { Field, type Option } from '../parts/field.tsx';
import { type Columns, DataTable, ListPage } from '../parts/table.tsx';

type Version = AnswerOf<'getConfigVersion'>;
type Rule = NonNullable<Version['rules']>[number];
type Load = AnswerOf<'listConfigLoads'>['loads'][number];
type FoundLoad = Version['load'];

/** Views of the page, in order. */
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

interface HereProps {
  readonly to: PageSearch;
  readonly children: ReactNode;
  readonly title?: string;
  readonly className?: string;
  readonly 'aria-current'?: true | undefined;
}

/** A link to another part of the shown version. */
function Here({ to, ...rest }: HereProps) {
  const [{ version }] = usePageSearch();
  return <To page={['/config', { version, ...to }]} {...rest} />;
}

interface PlaceProps {
  readonly file: string;
  readonly line: number | null;
  /** Version, if not the shown one. */
  readonly version?: string | null;
}

/** Position in a file, as a link. */
function Place({ file, line, version }: PlaceProps) {
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

/** Key of a rule in URLs; several limits of one entry share it. */
function ruleKey({ kind, name }: Pick<Rule, 'kind' | 'name'>): string {
  return `${kind}:${name}`;
}

function ships(name: string): boolean {
  return name.startsWith('appscli/');
}

const CAUSES = {
  start: 'the gateway started',
  files: 'files changed',
  signal: 'of a SIGHUP',
} as const;

/** Lines of each file by name; `null` if its text is not stored. */
function linesByFile(files: Version['files']): ReadonlyMap<string, readonly string[] | null> {
  return new Map(files.map(({ name, text }) => [name, text?.replace(/\n$/, '').split('\n') ?? null]));
}

/** A note above the content. */
function Note({ children, icon = 'info' }: { children: ReactNode; icon?: 'info' | 'alarm' }) {
  return (
    <p className="config-note row boxed">
      <Icon name={icon} />
      <span>{children}</span>
    </p>
  );
}

interface FindingsProps {
  readonly findings: FoundLoad['findings'];
  readonly version?: string | null;
  /** Omits found and expected values. */
  readonly is_brief?: boolean;
}

function Findings({ findings, version = null, is_brief = false }: FindingsProps) {
  if (findings.length === 0) return null;
  return (
    <ul className="bare ruled any">
      {findings.map(({ code, severity, message, file, line, found, expected, help }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes its order.
        <li key={i} className="stack near flush">
          <p>
            <Badge tone={severity === 'error' ? 'alarm' : 'warn'}>{severity === 'error' ? 'Error' : 'Warning'}</Badge>{' '}
            <code>{code}</code> {message}
          </p>
          {!is_brief && found !== null && <p className="small">Found: {found}</p>}
          {!is_brief && expected !== null && <p className="small">Expected: {expected}</p>}
          {help !== null && <p className="small">What to do: {help}</p>}
          <Place file={file} line={line} version={version} />
        </li>
      ))}
    </ul>
  );
}

type State = AnswerOf<'getConfig'>;

/** Active versions of the replicas, and the failure of a newer one. */
function InForce({ state }: { state: State }) {
  const { replicas, version, failing } = state;
  const versions = new Set(replicas.map((each) => each.version));
  const [only] = replicas;
  return (
    <>
      {failing !== null && <Failing load={failing} version={version} />}
      {versions.size > 1 && (
        <Note icon="alarm">Replicas run {versions.size} different versions, as during a rollout.</Note>
      )}
      {replicas.length === 1 && (
        <p className="row flush">
          <Badge tone="good">Active</Badge>
          <span>
            Version <VersionLink version={only!.version} />, loaded <TimeText at={only!.loaded_at} form="relative" />{' '}
            because {CAUSES[only!.cause]}, on {only!.name}.
          </span>
        </p>
      )}
      {replicas.length > 1 && (
        <Card title="Replicas">
          <DataTable
            label="Versions of the replicas"
            columns={replicaColumns(state)}
            rows={replicas}
            keyOf={({ name, loaded_at }) => `${name} ${loaded_at}`}
          />
        </Card>
      )}
    </>
  );
}

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
      <div className="stack flush">
        <h2>The last reload failed</h2>
        <p>
          <TimeText at={at} form="long" />, on {replica}. The previous configuration stays active. Correct the files;
          the gateway reloads them.
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
              <Here to={{ view: 'loads', from: version, to: load.version }}>diff to the active version</Here>
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
      cell: ({ name }) => (
        <>
          {name} {name === replica && <Badge>Current</Badge>}
        </>
      ),
      sort: 'name',
    },
    {
      title: 'Version',
      cell: (each) => (
        <>
          <VersionLink version={each.version} />{' '}
          {version !== null && each.version !== version && (
            <Here to={{ view: 'loads', from: version, to: each.version }}>differs</Here>
          )}
        </>
      ),
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
    { title: 'Program', cell: 'program', sort: 'program' },
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
/** Longer lines are not highlighted. */
const CHARS_MAX = 2000;

/** Tokens of a line with their kinds. */
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
  readonly kind?: 'same' | 'marked' | 'added' | 'removed';
}

/** Signs of diff lines, and their texts for screen readers. */
const SIGNS = { same: [' ', ''], added: ['+', 'Added: '], removed: ['-', 'Removed: '] } as const;

/** A line of YAML with its number. */
function Line({ line: { number, text, kind } }: { line: ShownLine }) {
  const [sign, words] = kind === undefined || kind === 'marked' ? [] : SIGNS[kind];
  return (
    <span className={`config-line ${kind ?? ''}`}>
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

/** Scrollable lines of a file. */
function Lines({ label, children }: { label: string; children: ReactNode }) {
  return (
    <pre className="config-yaml" role="region" aria-label={label} tabIndex={0}>
      <code>{children}</code>
    </pre>
  );
}

/** A whole file, scrolled to the marked line. */
function WholeFile({ name, lines, marked }: { name: string; lines: readonly string[]; marked: number }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (marked > 0) box.current?.querySelector('.marked')?.scrollIntoView({ block: 'center' });
  }, [marked]);
  return (
    <div ref={box}>
      <Lines label={name}>
        {lines.map((text, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name.
          <Line key={i} line={{ number: i + 1, text, ...(i + 1 === marked && { kind: 'marked' }) }} />
        ))}
      </Lines>
    </div>
  );
}

function FilesView({ version: { files } }: { version: Version }) {
  const [{ file: selected, line }, change] = usePageSearch();
  const file = files.find(({ name }) => name === selected) ?? (selected === undefined ? files[0] : undefined);
  const own = files.filter(({ name }) => !ships(name));
  const shipped = files.filter(({ name }) => ships(name));
  const number = Number(line);
  const names = [...own, ...shipped].map(({ name }) => name);
  return (
    <div className="config-files">
      <nav aria-label="Files" className="config-file-list">
        <FileList title="Own files" files={own} open={file?.name} />
        <FileList title="Shipped files" files={shipped} open={file?.name} />
      </nav>
      <div className="config-file-choice">
        <Field
          label="File"
          options={file === undefined ? [['', 'Choose a file'], ...names] : names}
          value={file?.name ?? ''}
          onValue={(name) => change({ view: 'files', file: name, line: undefined })}
        />
      </div>
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
            <WholeFile
              key={file.name}
              name={file.name}
              lines={linesByFile([file]).get(file.name) ?? []}
              marked={Number.isInteger(number) ? number : 0}
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
            <Here to={{ view: 'files', file: name }} className="page-link" aria-current={name === open || undefined}>
              {name.replace(/^appscli\//, '')}
            </Here>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Rules in words, beside their YAML. */
function RulesView({ version: { rules, rule_kinds, files } }: { version: Version }) {
  const [search, change] = usePageSearch();
  const texts = useMemo(() => linesByFile(files), [files]);
  if (rules === null) {
    return (
      <Card>
        <EmptyState title="This configuration has errors">
          See its <Here to={{ view: 'findings' }}>findings</Here>.
        </EmptyState>
      </Card>
    );
  }
  const { rule: selected } = search;
  // By key, or by name only, as in links of other pages.
  const isSelected = (rule: Rule) => selected !== undefined && (ruleKey(rule) === selected || rule.name === selected);
  const words = (search.find ?? '').trim().toLowerCase();
  const fits = ({ name, text, effect, file }: Rule) =>
    [name, text, effect, file].some((each) => each.toLowerCase().includes(words));
  const with_shipped = search.shipped === 'yes' || rules.some((rule) => ships(rule.file) && isSelected(rule));
  const own = rules.filter(({ file }) => !ships(file));
  const shown = (with_shipped ? rules : own).filter(fits);
  const shipped = rules.length - own.length;
  return (
    <div className="stack apart">
      <div className="filters wide">
        <Field
          label="Find a rule"
          type="search"
          value={search.find ?? ''}
          placeholder="Name, condition or effect"
          onValue={(find) => change({ find, rule: undefined }, { replace: true })}
        />
        {shipped > 0 && (
          <Button
            aria-pressed={with_shipped}
            onClick={() => change({ shipped: with_shipped ? undefined : 'yes', rule: undefined }, { replace: true })}
          >
            {with_shipped ? 'Hide' : 'Show'} {shipped} shipped rules
          </Button>
        )}
        <p className="soft small flush" role="status">
          {shown.length} of {rules.length} rules
        </p>
      </div>
      {selected !== undefined && !rules.some(isSelected) && <Note>Rule {selected} is not in this version.</Note>}
      {shown.length === 0 && (
        <Card>
          <EmptyState title={words === '' ? 'No own rules' : 'No matching rules'}>
            {words === ''
              ? 'Write routing rules and limits in gateway.yaml, conditions of stages in pipelines.'
              : 'Try another word, or show shipped rules.'}
          </EmptyState>
        </Card>
      )}
      {rule_kinds.map(({ kind, title }) => {
        const of_kind = shown.filter((rule) => rule.kind === kind);
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
      })}
    </div>
  );
}

interface RuleText {
  readonly rule: Rule;
  /** Lines of the file; `null` if its text is not stored. */
  readonly lines: readonly string[] | null;
}

function RuleItem({ rule, lines, is_selected }: RuleText & { is_selected: boolean }) {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (is_selected) item.current?.scrollIntoView({ block: 'center' });
  }, [is_selected]);
  return (
    <li
      ref={item}
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
  const has_condition = text !== 'otherwise' && text !== 'always';
  return (
    <div className="stack near flush any">
      <h3 className="row">
        <Here to={{ rule: ruleKey(rule) }} title="Link to this rule" className="quiet-link">
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

/** YAML of a rule, without its indentation. */
function RuleLines({ rule: { name, first_line, last_line }, lines }: RuleText) {
  if (lines === null) return <p className="soft small">The text of this file is not stored.</p>;
  const cut = lines.slice(first_line - 1, last_line);
  const indent = /^ */.exec(cut[0] ?? '')![0].length;
  return (
    <Lines label={`YAML of ${name}`}>
      {cut.map((line, i) => {
        const text = line.slice(0, indent).trim() === '' ? line.slice(indent) : line;
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name.
        return <Line key={i} line={{ number: first_line + i, text }} />;
      })}
    </Lines>
  );
}

type ShadowRule = AnswerOf<'listShadowRules'>['rules'][number];

/** Shadow rules: what each would have done, and how to enforce it. */
function ShadowView({ files }: { files: Version['files'] }) {
  const shadows = useOperation('listShadowRules', {}, { every_seconds: 60 });
  const texts = linesByFile(files);
  return (
    <Loaded query={shadows}>
      {({ rules, since }) =>
        rules.length === 0 ? (
          <Card>
            <EmptyState title="No rule is in shadow mode">
              A routing rule, limit or stage with <code>mode: shadow</code> is evaluated but not enforced. This page
              shows what it would have changed.
            </EmptyState>
          </Card>
        ) : (
          <div className="stack apart">
            <p className="soft small">
              From audit records since <TimeText at={since} form="long" />.
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

function ShadowCard({ rule, lines }: { rule: ShadowRule; lines: readonly string[] | null }) {
  const { requests, upstreams, last_at, last_request_id, patch, name, recorded_as } = rule;
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
              'Last match': last_at !== null && (
                <>
                  <TimeText at={last_at} />{' '}
                  {last_request_id !== null && (
                    <To page={['/requests', { request: last_request_id }]}>Show the request</To>
                  )}
                </>
              ),
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

/** Meaning of the count: routing rules count diverted requests, limits refused ones. */
function wouldHave({ kind, requests }: ShadowRule): string {
  const noun = requests === 1 ? 'request' : 'requests';
  if (kind === 'routing') return `${noun} would have been routed elsewhere`;
  if (kind === 'spend') return `${noun} would have been refused`;
  return kind === 'on_error' ? `${noun} would have been answered by it` : `${noun} would have matched`;
}

type Diff = AnswerOf<'diffConfigVersions'>;
type FileDiff = Diff['files'][number];

/** Diff of two versions: rules, then lines. */
function DiffView({ from, to }: { from: string; to: string }) {
  const diff = useOperation('diffConfigVersions', { from, to });
  return (
    <Loaded query={diff}>
      {({ files, rules }) => (
        <div className="stack apart">
          {files.length === 0 && (
            <Card>
              <EmptyState title="No differences" />
            </Card>
          )}
          {files.length > 0 && <RuleChanges rules={rules} />}
          {files.map((file) => (
            <FileChange key={file.name} file={file} />
          ))}
        </div>
      )}
    </Loaded>
  );
}

function RuleChanges({ rules }: { rules: Diff['rules'] }) {
  return (
    <Card title="Rules">
      {rules === null && <p className="soft">Not available: one of the versions has errors.</p>}
      {rules?.length === 0 && <p className="soft">No changes.</p>}
      {rules !== null && rules.length > 0 && (
        <ul className="bare ruled any">
          {rules.map(({ before, after }, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes its order.
            <li key={i} className="stack near flush">
              <h3>
                {(after ?? before)!.name}{' '}
                <Badge tone={after === null ? 'warn' : 'info'}>
                  {before === null ? 'Added' : after === null ? 'Removed' : 'Changed'}
                </Badge>
              </h3>
              {before !== null && <p className={after === null ? '' : 'soft struck'}>{wordsOf('Before: ', before)}</p>}
              {after !== null && <p>{wordsOf(before === null ? '' : 'After: ', after)}</p>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function wordsOf(begin: string, { effect, text, mode }: Rule): string {
  const when = text === 'always' || text === 'otherwise' ? text : `when ${text}`;
  return `${begin}${effect}, ${when}${mode === 'shadow' ? ' (shadow)' : ''}`;
}

const CHANGES = { added: 'Added', removed: 'Removed', changed: 'Changed' } as const;

function FileChange({ file: { name, change, hunks } }: { file: FileDiff }) {
  return (
    <Card title={name} actions={<Badge tone={change === 'removed' ? 'warn' : 'info'}>{CHANGES[change]}</Badge>}>
      {hunks === null && <p className="soft">No diff: it is code, too long or too different.</p>}
      {hunks !== null && hunks.length > 0 && (
        <Lines label={`Diff of ${name}`}>
          {hunks.map((hunk) => (
            <HunkLines key={`${hunk.old_line} ${hunk.new_line}`} hunk={hunk} />
          ))}
        </Lines>
      )}
    </Card>
  );
}

function HunkLines({ hunk }: { hunk: NonNullable<FileDiff['hunks']>[number] }) {
  let [old_line, new_line] = [hunk.old_line, hunk.new_line];
  const lines = hunk.lines.map(({ kind, text }) => {
    const number = kind === 'removed' ? old_line : new_line;
    if (kind !== 'added') old_line++;
    if (kind !== 'removed') new_line++;
    return { kind, text, number };
  });
  return (
    <>
      <span className="config-hunk">{`Line ${hunk.new_line}\n`}</span>
      {lines.map((line) => (
        <Line key={`${line.kind} ${line.number}`} line={line} />
      ))}
    </>
  );
}

const PAGE = 50;

/** Loads, and the diff of two versions. */
function LoadsView() {
  const [{ before, from, to }] = usePageSearch();
  // The list below has the same query, so both share one request.
  const cursor = /^\d{1,15}$/.test(before ?? '') ? Number(before) : undefined;
  const { data } = useOperation('listConfigLoads', { limit: PAGE, before: cursor });
  const loads = data?.loads ?? [];
  return (
    <div className="stack apart">
      <Compare loads={loads} from={from} to={to} />
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
          <Badge tone="warn">Active, needs a restart</Badge>
        ) : (
          <Badge tone="good">Active</Badge>
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

function Compare({ loads, from, to }: { loads: readonly Load[]; from: string | undefined; to: string | undefined }) {
  const [, change] = usePageSearch();
  const { time_zone } = useSession();
  const versions = [...new Map(loads.toReversed().map((load) => [load.version, load])).values()].toReversed();
  const options = versions.flatMap(({ version, at, failed }): Option[] => {
    if (version === null) return [];
    const text = `${version}, loaded ${longTime(new Date(at), time_zone)}${failed ? ' (failed)' : ''}`;
    return [[version, text]];
  });
  const field = (label: string, name: 'from' | 'to', selected: string | undefined) => {
    const more: Option = selected === undefined ? ['', 'Choose a version'] : selected;
    const is_known = versions.some(({ version }) => version === selected);
    return (
      <Field
        label={label}
        options={is_known ? options : [more, ...options]}
        value={selected ?? ''}
        onValue={(version) => change({ view: 'loads', [name]: version })}
      />
    );
  };
  return (
    <div className="filters wide">
      {field('Compare', 'from', from)}
      {field('with', 'to', to)}
      {(from !== undefined || to !== undefined) && (
        <Button onClick={() => change({ from: undefined, to: undefined })}>End comparison</Button>
      )}
    </div>
  );
}

/** Configuration page: rules, files, findings, loads and diffs, shadow rules. */
export function Page() {
  const [search] = usePageSearch();
  const state = useOperation('getConfig', {}, { every_seconds: 15 });
  return (
    <>
      <PageHead title="Configuration" intro="The loaded configuration, read-only. Change it in its files." />
      <Loaded query={state} lines={8}>
        {(answer) => {
          const version = search.version ?? answer.version;
          return version === null ? (
            <Card>
              <EmptyState title="No loads yet">
                A gateway records its configuration within seconds. Is its database reachable?
              </EmptyState>
            </Card>
          ) : (
            <div className="stack apart">
              <InForce state={answer} />
              <VersionViews name={version} active={answer.version} />
            </div>
          );
        }}
      </Loaded>
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
          <Loaded query={version} lines={8}>
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

/** Note that the shown version is not active. */
function OtherVersion({ version, active }: { version: Version; active: string | null }) {
  return (
    <Note>
      This is version <code>{version.version}</code>
      {version.load.failed ? ', which failed to load' : ', which is not active'}.{' '}
      {active !== null && (
        <>
          <Here to={{ view: 'loads', from: active, to: version.version }}>Compare it with the active version</Here> or{' '}
          <Here to={{ version: undefined }}>show the active version</Here>.
        </>
      )}
    </Note>
  );
}
