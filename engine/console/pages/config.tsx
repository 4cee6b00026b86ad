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
  Tabs,
  TimeText,
  To,
} from '../parts/basic.tsx';
import { SelectField, TextField } from '../parts/field.tsx';
import { type Column, DataTable, List } from '../parts/table.tsx';

type Version = AnswerOf<'getConfigVersion'>;
type Rule = NonNullable<Version['rules']>[number];
type Load = AnswerOf<'listConfigLoads'>['loads'][number];
type FoundLoad = Version['load'];

/** What the page can show, in the order of its views. */
const VIEWS = ['rules', 'shadow', 'files', 'findings', 'loads'] as const;
type View = (typeof VIEWS)[number];

function viewOf({ view, rule, file, from, to }: PageSearch): View {
  const named = VIEWS.find((each) => each === view);
  if (named !== undefined) return named;
  if (rule !== undefined) return 'rules';
  if (file !== undefined) return 'files';
  return from !== undefined && to !== undefined ? 'loads' : 'rules';
}

function Here({ to, children, ...rest }: { to: PageSearch; children: ReactNode; title?: string; className?: string }) {
  const [{ version }] = usePageSearch();
  return (
    <To page={['/config', { version, ...to }]} {...rest}>
      {children}
    </To>
  );
}

/** Where something is written, as a link to the line. */
function Place({
  file,
  line,
  version,
}: {
  readonly file: string;
  readonly line: number | null;
  /** Of another version than the one that is looked at. */
  readonly version?: string | null | undefined;
}) {
  const of_version = version == null ? {} : { version };
  return (
    <Here to={{ ...of_version, view: 'files', file, ...(line !== null && { line: String(line) }) }}>
      <code>
        {file}
        {line !== null && `:${line}`}
      </code>
    </Here>
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

function FindingsView({ load }: { load: FoundLoad }) {
  const { findings, problem } = load;
  return (
    <Card>
      {problem !== null && <p>{problem}</p>}
      {findings.length === 0 && problem === null && (
        <EmptyState title="Nothing was found">
          <p>Errors and warnings of "appscli check" appear here.</p>
        </EmptyState>
      )}
      <Findings findings={findings} />
    </Card>
  );
}

function Findings({
  findings,
  version,
  is_brief = false,
}: {
  readonly findings: FoundLoad['findings'];
  readonly version?: string | null;
  /** Without what was found and expected. */
  readonly is_brief?: boolean;
}) {
  if (findings.length === 0) return null;
  return (
    <ul className="bare ruled any">
      {findings.map(({ code, severity, message, file, line, found, expected, help }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes its order.
        <li key={`${code} ${file} ${line} ${i}`} className="stack near flush">
          <p>
            <Badge tone={severity === 'error' ? 'alarm' : 'warn'}>{severity === 'error' ? 'Error' : 'Warning'}</Badge>{' '}
            <code>{code}</code> {message}
          </p>
          {!is_brief && found !== null && <p className="small">Found: {found}</p>}
          {!is_brief && expected !== null && <p className="small">Expected: {expected}</p>}
          {help !== null && <p className="small">What to do: {help}</p>}
          <p className="small">
            <Place file={file} line={line} version={version} />
          </p>
        </li>
      ))}
    </ul>
  );
}

type State = AnswerOf<'getConfig'>;
type Replica = State['replicas'][number];

/** What runs now, on which replica since when, and what keeps a newer one from running. */
function InForce({ state }: { state: State }) {
  const { replicas, version, failing } = state;
  const versions = new Set(replicas.map((each) => each.version));
  const here = replicas.find(({ name }) => name === state.replica) ?? replicas[0];
  return (
    <>
      {failing !== null && <Failing load={failing} version={version} />}
      {versions.size > 1 && (
        <p className="config-note row boxed">
          <Icon name="alarm" />
          <span>Replicas run {versions.size} versions. During a rollout that is so for a while.</span>
        </p>
      )}
      {replicas.length === 1 && here !== undefined ? (
        <p className="row flush">
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

function Replicas({ state }: { state: State }) {
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

interface Piece {
  readonly kind: 'key' | 'text' | 'number' | 'word' | 'comment' | 'mark' | 'plain';
  readonly text: string;
}

/** Each alternative looks at a character once, whatever the line holds. */
const PIECES =
  /(?<comment>(?<=^|\s)#.*)|(?<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?<space>\s+)|(?<mark>[[\]{},:]|[-?|>&*!]+(?=\s|$))|(?<plain>[^\s[\]{},#"']+|.)/gu;
const NUMBER = /^[-+]?(?:\d[\d_]*)(?:\.\d+)?(?:e[-+]?\d+)?$/i;
const WORD = /^(?:true|false|null|~)$/;
/** A longer line is shown without colours. */
const CHARS_MAX = 2000;

/** The pieces of a line of YAML. It is for eyes: what spans lines is told as what it looks like. */
function piecesOf(line: string): readonly Piece[] {
  if (line.length > CHARS_MAX) return [{ kind: 'plain', text: line }];
  const found: Piece[] = [];
  for (const match of line.matchAll(PIECES)) {
    const [text] = match;
    const { comment, text: quoted, space, mark } = match.groups!;
    const rest = line.slice(match.index + text.length);
    if (comment !== undefined) found.push({ kind: 'comment', text });
    else if (space !== undefined) found.push({ kind: 'plain', text });
    else if (mark !== undefined) found.push({ kind: 'mark', text });
    else if (quoted !== undefined) found.push({ kind: /^\s*:(?:\s|$)/.test(rest) ? 'key' : 'text', text });
    else found.push(...wordPieces(text, rest));
  }
  return found;
}

function wordPieces(text: string, rest: string): Piece[] {
  // `key:` before a space or the end of the line.
  if (text.length > 1 && text.endsWith(':') && /^(?:\s|$)/.test(rest)) {
    return [
      { kind: 'key', text: text.slice(0, -1) },
      { kind: 'mark', text: ':' },
    ];
  }
  if (NUMBER.test(text)) return [{ kind: 'number', text }];
  return [{ kind: WORD.test(text) ? 'word' : 'plain', text }];
}

interface YamlLinesProps {
  /** What the lines are, for those who do not see where they stand. */
  readonly label: string;
  /** Those of the whole file. */
  readonly lines: readonly string[];
  /** Only these lines, counted from 1. */
  readonly from?: number;
  readonly to?: number;
  /** Lines that are meant, marked and brought into view. */
  readonly marked?: { readonly from: number; readonly to: number };
  /** Whether the first marked line is scrolled to. */
  readonly scrolls?: boolean;
}

function YamlLines({ label, lines, from = 1, to, marked, scrolls = false }: YamlLinesProps) {
  const cut = lines.slice(from - 1, to ?? lines.length);
  // A part of a file needs no room for where it stands.
  const indent = to === undefined ? 0 : /^ */.exec(cut[0] ?? '')![0].length;
  const shown = cut.map((line) => (line.slice(0, indent).trim() === '' ? line.slice(indent) : line));
  const first_marked = marked?.from;
  const target = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (scrolls && first_marked !== undefined) target.current?.scrollIntoView({ block: 'center' });
  }, [scrolls, first_marked]);
  return (
    <pre className="config-yaml" role="region" aria-label={label} tabIndex={0}>
      <code>
        {shown.map((line, i) => {
          const number = from + i;
          const is_marked = marked !== undefined && number >= marked.from && number <= marked.to;
          return (
            <span
              key={number}
              ref={number === first_marked ? target : undefined}
              className={is_marked ? 'config-line marked' : 'config-line'}
            >
              <span className="config-number" aria-hidden="true">
                {number}
              </span>
              <YamlLine line={line} />
              {'\n'}
            </span>
          );
        })}
      </code>
    </pre>
  );
}

function YamlLine({ line }: { line: string }) {
  return (
    <span>
      {piecesOf(line).map(({ kind, text }, i) =>
        kind === 'plain' ? (
          text
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a line have no other name and never move.
          <span key={i} className={`config-yaml-${kind}`}>
            {text}
          </span>
        ),
      )}
    </span>
  );
}

function FilesView({ version }: { version: Version }) {
  const [{ file: asked, line }, change] = usePageSearch();
  const { files } = version;
  const file = files.find(({ name }) => name === asked) ?? (asked === undefined ? files[0] : undefined);
  const own = files.filter(({ name }) => !ships(name));
  const shipped = files.filter(({ name }) => ships(name));
  const number = Number(line);
  const marked = Number.isInteger(number) && number > 0 ? { marked: { from: number, to: number } } : {};
  const options = [...own, ...shipped].map(({ name }) => ({ value: name, text: name }));
  return (
    <div className="config-files">
      <nav aria-label="Files" className="config-file-list">
        <FileList title="Yours" files={own} open={file?.name} />
        <FileList title="Ship with the program" files={shipped} open={file?.name} />
      </nav>
      <div className="config-file-choice">
        <SelectField
          label="File"
          options={file === undefined ? [{ value: '', text: 'Choose a file' }, ...options] : options}
          value={file?.name ?? ''}
          onChange={({ target }) => change({ view: 'files', file: target.value, line: undefined })}
        />
      </div>
      <Card title={file?.name ?? asked ?? 'Files'}>
        {file === undefined && (
          <EmptyState title="This version has no such file">
            <p>Choose one of the list.</p>
          </EmptyState>
        )}
        {file !== undefined && file.text === null && (
          <p className="soft">
            Its text is not kept: it is code, a certificate or very long.
            {file.digest !== null && ` The hash of its content is ${file.digest}.`}
          </p>
        )}
        {file?.text != null && (
          <>
            <p className="soft small">As it was loaded. What is or looks like a secret is shown as stars.</p>
            <YamlLines
              key={file.name}
              label={file.name}
              lines={linesByFile([file]).get(file.name) ?? []}
              {...marked}
              scrolls
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
      <ul>
        {files.map(({ name }) => (
          <li key={name} className={name === open ? 'open' : undefined} aria-current={name === open || undefined}>
            <Here to={{ view: 'files', file: name }}>{name.replace(/^appscli\//, '')}</Here>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Every rule in words, with what is written for it beside. */
function RulesView({ version }: { version: Version }) {
  const [search, change] = usePageSearch();
  const { rules, rule_kinds, files } = version;
  const texts = useMemo(() => linesByFile(files), [files]);
  if (rules === null) {
    return (
      <Card>
        <EmptyState title="A configuration with errors has no rules">
          <p>
            <Here to={{ view: 'findings' }}>Its findings</Here> say what to correct.
          </p>
        </EmptyState>
      </Card>
    );
  }
  const asked = search.rule;
  const words = (search.find ?? '').trim().toLowerCase();
  const fits = (rule: Rule) =>
    words === '' || [rule.name, rule.text, rule.effect, rule.file].some((text) => text.toLowerCase().includes(words));
  const asks_shipped = rules.some((rule) => ships(rule.file) && asked !== undefined && isAsked(rule, asked));
  const with_shipped = search.shipped === 'yes' || asks_shipped;
  const own = rules.filter(({ file }) => !ships(file));
  const shown = (with_shipped ? rules : own).filter(fits);
  const shipped = rules.length - own.length;
  return (
    <div className="config-view stack apart">
      <div className="filters">
        <TextField
          label="Find a rule"
          type="search"
          value={search.find ?? ''}
          placeholder="Name, condition or effect"
          onChange={({ target }) => change({ find: target.value, rule: undefined }, { replace: true })}
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
      {asked !== undefined && !rules.some((rule) => isAsked(rule, asked)) && (
        <p className="config-note row boxed">There is no rule {asked} in this version.</p>
      )}
      {shown.length === 0 && (
        <Card>
          <EmptyState title={words === '' ? 'No rules of your own' : 'No rule fits'}>
            {words === '' ? (
              <p>Rules for routing and limits are written in gateway.yaml, those of stages in pipelines.</p>
            ) : (
              <p>Try another word, or show those that ship with the program.</p>
            )}
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
                    is_asked={asked !== undefined && isAsked(rule, asked)}
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

/** By its whole name, or by that alone: other pages know a rule by its name. */
function isAsked(rule: Rule, asked: string): boolean {
  return ruleKey(rule) === asked || rule.name === asked;
}

function RuleItem({ rule, lines, is_asked }: { rule: Rule; lines: readonly string[] | null; is_asked: boolean }) {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (is_asked) item.current?.scrollIntoView({ block: 'center' });
  }, [is_asked]);
  return (
    <li ref={item} className={is_asked ? 'config-rule asked' : 'config-rule'} aria-current={is_asked || undefined}>
      <RuleWords rule={rule} />
      <RuleText rule={rule} lines={lines} />
    </li>
  );
}

function RuleWords({ rule }: { rule: Rule }) {
  const { name, mode, text, effect, file, line } = rule;
  return (
    <div className="stack near flush any">
      <h3 className="row">
        <Here to={{ rule: ruleKey(rule) }} title="A link to this rule" className="quiet-link">
          {name}
        </Here>
        {mode === 'shadow' && <Badge tone="info">Shadow: only recorded</Badge>}
      </h3>
      <p>
        {text === 'otherwise' || text === 'always' ? `${capital(text)} ` : ''}
        {effect}
        {text !== 'otherwise' && text !== 'always' && (
          <>
            {' '}
            <span className="soft">when</span> {text}
          </>
        )}
      </p>
      <p className="small">
        <Place file={file} line={line} />
      </p>
    </div>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function RuleText({ rule, lines }: { rule: Rule; lines: readonly string[] | null }) {
  const { name, first_line, last_line } = rule;
  if (lines === null) return <p className="soft small">The text of this file is not kept.</p>;
  return <YamlLines label={`What is written for ${name}`} lines={lines} from={first_line} to={last_line} />;
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
              <p>
                With <code>mode: shadow</code> a rule for routing, a limit or a stage is only recorded. After some days
                this page says what it would have changed.
              </p>
            </EmptyState>
          </Card>
        ) : (
          <div className="config-view stack apart">
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
          <RuleText rule={rule} lines={lines} />
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
        <div className="config-view stack apart">
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
              {before !== null && <p className={after === null ? '' : 'config-was'}>{wordsOf('Was: ', before)}</p>}
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
const SIGNS = { same: ' ', added: '+', removed: '-' } as const;
const SAID = { same: '', added: 'New: ', removed: 'Gone: ' } as const;

function FileChange({ file: { name, change, hunks } }: { file: FileDiff }) {
  return (
    <Card title={name} actions={<Badge tone={change === 'removed' ? 'warn' : 'info'}>{CHANGES[change]}</Badge>}>
      {hunks === null && <p className="soft">It is code, very long, or so different that no lines can be told.</p>}
      {hunks !== null && hunks.length > 0 && (
        <pre className="config-yaml" role="region" aria-label={`What differs in ${name}`} tabIndex={0}>
          <code>
            {hunks.map((hunk) => (
              <HunkLines key={`${hunk.old_line} ${hunk.new_line}`} hunk={hunk} />
            ))}
          </code>
        </pre>
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
      {lines.map(({ kind, text, number }) => (
        <span key={`${kind} ${number}`} className={`config-line ${kind}`}>
          <span className="config-number" aria-hidden="true">
            {number}
          </span>
          <span className="unseen">{SAID[kind]}</span>
          <span aria-hidden="true">{SIGNS[kind]} </span>
          <YamlLine line={text} />
          {'\n'}
        </span>
      ))}
    </>
  );
}

const PAGE = 50;

/** What was loaded when and why, and what differs between any two versions. */
function LoadsView() {
  const [{ before, from, to }] = usePageSearch();
  const loads = useOperation('listConfigLoads', {
    limit: PAGE,
    ...(before !== undefined && /^\d{1,15}$/.test(before) && { before: Number(before) }),
  });
  const found = loads.data?.loads ?? NONE;
  const columns = useMemo(() => columnsOf(found), [found]);
  return (
    <div className="config-view stack apart">
      <Compare loads={found} from={from} to={to} />
      {from !== undefined && to !== undefined && <DiffView from={from} to={to} />}
      <Card title="Loads">
        <List
          query={loads}
          rows={(page) => page.loads}
          turn="before"
          label="Loads of configurations"
          columns={columns}
          empty={
            <EmptyState title="Nothing was loaded yet">
              <p>Each start and each reload of a gateway on this database appears here.</p>
            </EmptyState>
          }
        />
      </Card>
      <p className="soft small">Kept for 90 days: the last 50 versions, and at most 1000 loads.</p>
    </div>
  );
}

const NONE: readonly Load[] = [];

function columnsOf(loads: readonly Load[]): readonly Column<Load>[] {
  return [
    { id: 'at', title: 'When', cell: ({ at }) => <TimeText at={at} />, sort: ({ at }) => at },
    {
      id: 'outcome',
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
    { id: 'cause', title: 'Because', cell: ({ cause }) => CAUSES[cause] },
    {
      id: 'version',
      title: 'Version',
      cell: ({ version }) =>
        version === null ? (
          'unreadable'
        ) : (
          <Here to={{ version, view: 'rules' }}>
            <code>{version}</code>
          </Here>
        ),
    },
    { id: 'changed', title: 'What changed', cell: (load) => <Changed load={load} loads={loads} /> },
    { id: 'findings', title: 'Findings', cell: (load) => <FindingCount load={load} /> },
    { id: 'replica', title: 'Replica', cell: ({ replica }) => replica, sort: ({ replica }) => replica },
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

function FindingCount({ load: { version, errors, warnings, problem } }: { load: Load }) {
  if (errors + warnings === 0) return problem ?? 'none';
  const words = errors > 0 ? counted(errors, 'error') : counted(warnings, 'warning');
  if (version === null) return words;
  return <Here to={{ version, view: 'findings' }}>{words}</Here>;
}

function Compare({ loads, from, to }: { loads: readonly Load[]; from: string | undefined; to: string | undefined }) {
  const [, change] = usePageSearch();
  const { time_zone } = useSession();
  const versions = [...new Map(loads.toReversed().map((load) => [load.version, load])).values()].toReversed();
  const options = versions.flatMap(({ version, at, failed }) => {
    if (version === null) return [];
    const text = `${version}, loaded ${longTime(new Date(at), time_zone)}${failed ? ' (failed)' : ''}`;
    return [{ value: version, text }];
  });
  const withAsked = (asked: string | undefined) => {
    const known = options.some(({ value }) => value === asked);
    const more = asked === undefined ? { value: '', text: 'Choose a version' } : { value: asked, text: asked };
    return known ? options : [more, ...options];
  };
  return (
    <div className="filters">
      <SelectField
        label="Compare"
        options={withAsked(from)}
        value={from ?? ''}
        onChange={({ target }) => change({ view: 'loads', from: target.value })}
      />
      <SelectField
        label="with"
        options={withAsked(to)}
        value={to ?? ''}
        onChange={({ target }) => change({ view: 'loads', to: target.value })}
      />
      {(from !== undefined || to !== undefined) && (
        <Button onClick={() => change({ from: undefined, to: undefined })}>End comparison</Button>
      )}
    </div>
  );
}

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

function Answered({ state }: { state: State }) {
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
    <div className="stack apart">
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

function VersionViews({ asked, in_force }: { asked: string; in_force: string | null }) {
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
            <p className="config-note row boxed">
              <Icon name="info" />
              <span>
                This address names the version <code>{search.version}</code>.{' '}
                <Here to={{ version: undefined, view }}>Look at what runs</Here>.
              </span>
            </p>
          )}
          <Loaded query={version} lines={8}>
            {(found) => (
              <div className="config-view stack apart">
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

function VersionView({ view, version }: { view: Exclude<View, 'loads'>; version: Version }) {
  if (view === 'rules') return <RulesView version={version} />;
  if (view === 'files') return <FilesView version={version} />;
  if (view === 'findings') return <FindingsView load={version.load} />;
  return <ShadowView files={version.files} />;
}

/** That one looks at something that does not run. */
function OtherVersion({ version, in_force }: { version: Version; in_force: string | null }) {
  return (
    <p className="config-note row boxed">
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
