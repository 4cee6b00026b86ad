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

/** What the page can show, in the order of its views. */
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

/** A link to something else of the version that is looked at. */
function Here({ to, ...rest }: HereProps) {
  const [{ version }] = usePageSearch();
  return <To page={['/config', { version, ...to }]} {...rest} />;
}

interface PlaceProps {
  readonly file: string;
  readonly line: number | null;
  /** Of another version than the one that is looked at. */
  readonly version?: string | null;
}

/** Where something is written, as a link to the line. */
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

/** What a rule is called in an address. Several limits of one entry share it. */
function ruleKey({ kind, name }: Pick<Rule, 'kind' | 'name'>): string {
  return `${kind}:${name}`;
}

function ships(name: string): boolean {
  return name.startsWith('appscli/');
}

const CAUSES = {
  start: 'the gateway started',
  files: 'files changed',
  signal: 'a signal asked for it',
} as const;

/** The lines of each file, by its name; `null` where its text is not kept. */
function linesByFile(files: Version['files']): ReadonlyMap<string, readonly string[] | null> {
  return new Map(files.map(({ name, text }) => [name, text?.replace(/\n$/, '').split('\n') ?? null]));
}

/** Something to know before all else. */
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
  /** Without what was found and expected. */
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

/** What runs now, on which replica since when, and what keeps a newer one from running. */
function InForce({ state }: { state: State }) {
  const { replicas, version, failing } = state;
  const versions = new Set(replicas.map((each) => each.version));
  const [only] = replicas;
  return (
    <>
      {failing !== null && <Failing load={failing} version={version} />}
      {versions.size > 1 && (
        <Note icon="alarm">Replicas run {versions.size} versions. During a rollout that is so for a while.</Note>
      )}
      {replicas.length === 1 && (
        <p className="row flush">
          <Badge tone="good">In force</Badge>
          <span>
            Version <VersionLink version={only!.version} />, loaded <TimeText at={only!.loaded_at} form="relative" />{' '}
            because {CAUSES[only!.cause]}, on {only!.name}.
          </span>
        </p>
      )}
      {replicas.length > 1 && (
        <Card title="Replicas">
          <DataTable
            label="What each replica runs"
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

function replicaColumns({ replica, version }: State): Columns<State['replicas'][number]> {
  return [
    {
      title: 'Replica',
      cell: ({ name }) => (
        <>
          {name} {name === replica && <Badge>Answers you</Badge>}
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
          <Badge tone="good">Work</Badge>
        ) : (
          say`${<Badge tone="alarm">Failing</Badge>} since ${timeAt(failing_since)}`
        ),
    },
    { title: 'Program', cell: 'program', sort: 'program' },
  ];
}

/** What a line of YAML is made of, to the eye: what spans lines is taken for what it looks like. */
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
/** A longer line is shown without colours. */
const CHARS_MAX = 2000;

/** The pieces of a line, each with its kind. */
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

/** Beside lines that differ: a sign, and the same for those who do not see it. */
const SIGNS = { same: [' ', ''], added: ['+', 'New: '], removed: ['-', 'Gone: '] } as const;

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

/** Lines of a file, to be scrolled and selected. */
function Lines({ label, children }: { label: string; children: ReactNode }) {
  return (
    <pre className="config-yaml" role="region" aria-label={label} tabIndex={0}>
      <code>{children}</code>
    </pre>
  );
}

/** A whole file, with the line that is meant brought into view. */
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
  const [{ file: asked, line }, change] = usePageSearch();
  const file = files.find(({ name }) => name === asked) ?? (asked === undefined ? files[0] : undefined);
  const own = files.filter(({ name }) => !ships(name));
  const shipped = files.filter(({ name }) => ships(name));
  const number = Number(line);
  const names = [...own, ...shipped].map(({ name }) => name);
  return (
    <div className="config-files">
      <nav aria-label="Files" className="config-file-list">
        <FileList title="Yours" files={own} open={file?.name} />
        <FileList title="Ship with the program" files={shipped} open={file?.name} />
      </nav>
      <div className="config-file-choice">
        <Field
          label="File"
          options={file === undefined ? [['', 'Choose a file'], ...names] : names}
          value={file?.name ?? ''}
          onValue={(name) => change({ view: 'files', file: name, line: undefined })}
        />
      </div>
      <Card title={file?.name ?? asked ?? 'Files'}>
        {file === undefined && <EmptyState title="This version has no such file">Choose one of the list.</EmptyState>}
        {file?.text === null && (
          <p className="soft">
            Its text is not kept: it is code, a certificate or very long.
            {file.digest !== null && ` The hash of its content is ${file.digest}.`}
          </p>
        )}
        {file?.text != null && (
          <>
            <p className="soft small">As it was loaded. What is or looks like a secret is shown as stars.</p>
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

/** Every rule in words, with what is written for it beside. */
function RulesView({ version: { rules, rule_kinds, files } }: { version: Version }) {
  const [search, change] = usePageSearch();
  const texts = useMemo(() => linesByFile(files), [files]);
  if (rules === null) {
    return (
      <Card>
        <EmptyState title="A configuration with errors has no rules">
          <Here to={{ view: 'findings' }}>Its findings</Here> say what to correct.
        </EmptyState>
      </Card>
    );
  }
  const { rule: asked } = search;
  // By its whole name, or by that alone: other pages know a rule by its name.
  const isAsked = (rule: Rule) => asked !== undefined && (ruleKey(rule) === asked || rule.name === asked);
  const words = (search.find ?? '').trim().toLowerCase();
  const fits = ({ name, text, effect, file }: Rule) =>
    [name, text, effect, file].some((each) => each.toLowerCase().includes(words));
  const with_shipped = search.shipped === 'yes' || rules.some((rule) => ships(rule.file) && isAsked(rule));
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
            {with_shipped ? 'Hide' : 'Show'} {shipped} that ship with the program
          </Button>
        )}
        <p className="soft small flush" role="status">
          {shown.length} of {rules.length} rules
        </p>
      </div>
      {asked !== undefined && !rules.some(isAsked) && <Note>There is no rule {asked} in this version.</Note>}
      {shown.length === 0 && (
        <Card>
          <EmptyState title={words === '' ? 'No rules of your own' : 'No rule fits'}>
            {words === ''
              ? 'Rules for routing and limits are written in gateway.yaml, those of stages in pipelines.'
              : 'Try another word, or show those that ship with the program.'}
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
                    is_asked={isAsked(rule)}
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
  /** Of the file; `null` where its text is not kept. */
  readonly lines: readonly string[] | null;
}

function RuleItem({ rule, lines, is_asked }: RuleText & { is_asked: boolean }) {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (is_asked) item.current?.scrollIntoView({ block: 'center' });
  }, [is_asked]);
  return (
    <li ref={item} className={is_asked ? 'config-rule asked' : 'config-rule'} aria-current={is_asked || undefined}>
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
        <Here to={{ rule: ruleKey(rule) }} title="A link to this rule" className="quiet-link">
          {name}
        </Here>
        {mode === 'shadow' && <Badge tone="info">Shadow: only recorded</Badge>}
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

/** What is written for a rule, without the indentation that it has in its file. */
function RuleLines({ rule: { name, first_line, last_line }, lines }: RuleText) {
  if (lines === null) return <p className="soft small">The text of this file is not kept.</p>;
  const cut = lines.slice(first_line - 1, last_line);
  const indent = /^ */.exec(cut[0] ?? '')![0].length;
  return (
    <Lines label={`What is written for ${name}`}>
      {cut.map((line, i) => {
        const text = line.slice(0, indent).trim() === '' ? line.slice(indent) : line;
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name.
        return <Line key={i} line={{ number: first_line + i, text }} />;
      })}
    </Lines>
  );
}

type ShadowRule = AnswerOf<'listShadowRules'>['rules'][number];

/** Rules in shadow mode: what each would have done, and what puts it in force. */
function ShadowView({ files }: { files: Version['files'] }) {
  const shadows = useOperation('listShadowRules', {}, { every_seconds: 60 });
  const texts = linesByFile(files);
  return (
    <Loaded query={shadows}>
      {({ rules, since }) =>
        rules.length === 0 ? (
          <Card>
            <EmptyState title="No rule is in shadow mode">
              With <code>mode: shadow</code> a rule for routing, a limit or a stage is only recorded. After some days
              this page says what it would have changed.
            </EmptyState>
          </Card>
        ) : (
          <div className="stack apart">
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
              'Went to': upstreams
                .map(({ upstream, requests: each }) => `${upstream ?? 'no upstream'}: ${each.toLocaleString('en')}`)
                .join(', '),
              'Last time': last_at !== null && (
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

type Diff = AnswerOf<'diffConfigVersions'>;
type FileDiff = Diff['files'][number];

/** What differs between two versions: first in words, then in lines. */
function DiffView({ from, to }: { from: string; to: string }) {
  const diff = useOperation('diffConfigVersions', { from, to });
  return (
    <Loaded query={diff}>
      {({ files, rules }) => (
        <div className="stack apart">
          {files.length === 0 && (
            <Card>
              <EmptyState title="Nothing differs between these versions" />
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
      {rules === null && <p className="soft">One of the versions has errors, so that its rules cannot be told.</p>}
      {rules?.length === 0 && <p className="soft">No rule says something else.</p>}
      {rules !== null && rules.length > 0 && (
        <ul className="bare ruled any">
          {rules.map(({ before, after }, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes its order.
            <li key={i} className="stack near flush">
              <h3>
                {(after ?? before)!.name}{' '}
                <Badge tone={after === null ? 'warn' : 'info'}>
                  {before === null ? 'New' : after === null ? 'Gone' : 'Changed'}
                </Badge>
              </h3>
              {before !== null && <p className={after === null ? '' : 'soft struck'}>{wordsOf('Was: ', before)}</p>}
              {after !== null && <p>{wordsOf(before === null ? '' : 'Is: ', after)}</p>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function wordsOf(begin: string, { effect, text, mode }: Rule): string {
  const when = text === 'always' || text === 'otherwise' ? text : `when ${text}`;
  return `${begin}${effect}, ${when}${mode === 'shadow' ? ' (shadow: only recorded)' : ''}`;
}

const CHANGES = { added: 'New file', removed: 'File is gone', changed: 'Changed' } as const;

function FileChange({ file: { name, change, hunks } }: { file: FileDiff }) {
  return (
    <Card title={name} actions={<Badge tone={change === 'removed' ? 'warn' : 'info'}>{CHANGES[change]}</Badge>}>
      {hunks === null && <p className="soft">It is code, very long, or so different that no lines can be told.</p>}
      {hunks !== null && hunks.length > 0 && (
        <Lines label={`What differs in ${name}`}>
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

/** What was loaded when and why, and what differs between any two versions. */
function LoadsView() {
  const [{ before, from, to }] = usePageSearch();
  // Asked for by the list below as well, and answered to both at once.
  const asked = /^\d{1,15}$/.test(before ?? '') ? Number(before) : undefined;
  const { data } = useOperation('listConfigLoads', { limit: PAGE, before: asked });
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
        empty={['Nothing was loaded yet', 'Each start and each reload of a gateway on this database appears here.']}
      />
      <p className="soft small">Kept for 90 days: the last 50 versions, and at most 1000 loads.</p>
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
          <Badge tone="warn">In force, needs a restart</Badge>
        ) : (
          <Badge tone="good">In force</Badge>
        ),
    },
    { title: 'Because', cell: ({ cause }) => CAUSES[cause] },
    {
      title: 'Version',
      cell: ({ version }) => (version === null ? 'unreadable' : <VersionLink version={version} />),
    },
    { title: 'What changed', cell: (load) => <Changed load={load} loads={loads} /> },
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
  const words = changed.length === 0 ? (differs ? 'other files than before' : 'nothing') : changed.join(', ');
  return (
    <>
      {differs ? (
        <Here to={{ view: 'loads', from: earlier.version!, to: version }} title="Compare with what was in force before">
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
  const field = (label: string, name: 'from' | 'to', asked: string | undefined) => {
    const more: Option = asked === undefined ? ['', 'Choose a version'] : asked;
    const is_known = versions.some(({ version }) => version === asked);
    return (
      <Field
        label={label}
        options={is_known ? options : [more, ...options]}
        value={asked ?? ''}
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

/** What gateways loaded and run: rules in words beside their files, what each reload changed, and rules in shadow mode. */
export function Page() {
  const [search] = usePageSearch();
  const state = useOperation('getConfig', {}, { every_seconds: 15 });
  return (
    <>
      <PageHead
        title="Configuration"
        intro="What the gateway loaded and runs. It is changed in its files; nothing here changes it."
      />
      <Loaded query={state} lines={8}>
        {(answer) => {
          const asked = search.version ?? answer.version;
          return asked === null ? (
            <Card>
              <EmptyState title="Nothing was loaded yet">
                A gateway writes down what it loads within moments. Is its database reachable?
              </EmptyState>
            </Card>
          ) : (
            <div className="stack apart">
              <InForce state={answer} />
              <VersionViews asked={asked} in_force={answer.version} />
            </div>
          );
        }}
      </Loaded>
    </>
  );
}

function VersionViews({ asked, in_force }: { asked: string; in_force: string | null }) {
  const [search] = usePageSearch();
  const version = useOperation('getConfigVersion', { version: asked });
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
              This address names the version <code>{search.version}</code>.{' '}
              <Here to={{ version: undefined, view }}>Look at what runs</Here>.
            </Note>
          )}
          <Loaded query={version} lines={8}>
            {(found) => (
              <div className="stack apart">
                {found.version !== in_force && view !== 'shadow' && (
                  <OtherVersion version={found} in_force={in_force} />
                )}
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
        <EmptyState title="Nothing was found">Errors and warnings of "appscli check" appear here.</EmptyState>
      )}
      <Findings findings={findings} />
    </Card>
  );
}

/** That one looks at something that does not run. */
function OtherVersion({ version, in_force }: { version: Version; in_force: string | null }) {
  return (
    <Note>
      This is version <code>{version.version}</code>
      {version.load.failed ? ', which could not be loaded' : ', which is not what runs here'}.{' '}
      {in_force !== null && (
        <>
          <Here to={{ view: 'loads', from: in_force, to: version.version }}>Compare it with what runs</Here> or{' '}
          <Here to={{ version: undefined }}>look at what runs</Here>.
        </>
      )}
    </Note>
  );
}
