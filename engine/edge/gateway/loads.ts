import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, extname, relative, resolve, sep } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import type { Clock, Log } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { type Every, everyInBackground } from '../../base/kit/clock.ts';
import { PACKAGE_ROOT, programVersion } from '../../base/kit/package-root.ts';
import { REPLICA } from '../../base/kit/process/gateway-process.ts';
import { waitAtMost } from '../../base/kit/wait-at-most.ts';
import { ConfigurationError } from '../../base/source/configuration-error.ts';
import type { Diagnostic } from '../../base/source/diagnostics/diagnostic.ts';
import { shownPath } from '../../base/source/diagnostics/render.ts';
import type { Loaded } from '../../base/source/spec.ts';
import type { Database } from '../../base/store/database.ts';
import {
  forgetReplica,
  type KeptFile,
  type KeptFinding,
  type KeptRule,
  type LoadCause,
  type RecordedLoad,
  type ReplicaConfig,
  recordLoad,
  reportReplica,
  tidyLoads,
} from '../../domain/audit/config-loads.ts';
import { configHash } from '../../domain/telemetry/config-hash.ts';
import { effectiveRules } from '../../pipeline/explain/rules.ts';

type Block = Pick<KeptRule, 'first_line' | 'last_line'>;

const BLANK = /^\s*(?:#.*)?$/;

const indentOf = (text: string): number => /^ */.exec(text)![0].length;

/** The YAML list entry or mapping that contains the key on a line. */
export function blockAround(lines: readonly string[], line: number): Block {
  const key = lines[line - 1] ?? '';
  let first_line = line;
  if (!key.trimStart().startsWith('- ')) {
    const isAbove = (text: string) => !BLANK.test(text) && indentOf(text) < indentOf(key);
    first_line = lines.slice(0, line).findLastIndex(isAbove) + 1 || line;
  }
  return { first_line, last_line: blockEnd(lines, first_line) };
}

/** Last line, from 1, of the YAML block that begins on a line: deeper lines, and the rest of a list entry. */
export function blockEnd(lines: readonly string[], line: number): number {
  const first = lines[line - 1];
  if (first === undefined) return line;
  const indent = indentOf(first);
  const is_entry = first.startsWith('- ', indent);
  let last = line;
  for (let at = line; at < lines.length; at++) {
    const text = lines[at]!;
    if (BLANK.test(text)) continue;
    const own = indentOf(text);
    if (own < indent || (own === indent && (is_entry || !/^[\]}]/.test(text.trimStart())))) break;
    last = at + 1;
  }
  return last;
}

/** `version`: hash of all files, `null` if none was readable. `rules`: `null` for a configuration with errors. */
type KeptConfiguration = Pick<RecordedLoad, 'version' | 'files' | 'findings' | 'rules'>;

/** Largest stored text of one file, and of all together. */
const FILE_CHARS_MAX = 262_144;
const CHARS_MAX = 4_194_304;
const FINDINGS_MAX = 100;
/** Longest stored sentence; a longer one contains a hostile name. */
const WORDS_MAX = 2000;
const DIGITS = 12;
const CODE = ['.ts', '.mts', '.js', '.mjs', '.cjs'];

/** Display names of files: relative to gateway.yaml, or `appscli/...` for shipped files. */
function fileNamer(config_file: string): (file: string) => string {
  const directory = dirname(resolve(config_file));
  const shipped = PACKAGE_ROOT + sep;
  return (file) => {
    const path = resolve(directory, file);
    const own = shownPath(path, directory);
    if (own !== path || !path.startsWith(shipped)) return own;
    return `appscli/${relative(PACKAGE_ROOT, path).replaceAll(sep, '/')}`;
  };
}

type KeptParts = Pick<Loaded, 'files' | 'sources' | 'of_machine'>;

/** The stored form of a configuration, without secrets and machine-specific values: replicas share a version. */
function keepVersion(
  config_file: string,
  loaded: KeptParts & Pick<Loaded, 'diagnostics'>,
  rules: readonly Omit<KeptRule, keyof Block>[] | null,
): KeptConfiguration {
  const nameOf = fileNamer(config_file);
  const files = keepFiles(loaded, nameOf);
  const is_read = files.some(({ text, digest }) => text !== null || digest !== null);
  const texts = new Map([...loaded.sources].map(([path, text]) => [nameOf(path), text.split('\n')]));
  return {
    version: is_read ? hashOf(JSON.stringify(files)) : null,
    files,
    findings: loaded.diagnostics.slice(0, FINDINGS_MAX).map((finding) => keepFinding(finding, nameOf)),
    rules:
      rules?.map(({ kind, name, mode, text, effect, file, line }) => {
        const named = nameOf(file);
        const lines = texts.get(named) ?? [];
        // A stage's condition is part of its entry.
        const is_part = kind === 'guard' || kind === 'on_error';
        const block = is_part ? blockAround(lines, line) : { first_line: line, last_line: blockEnd(lines, line) };
        return { kind, name, mode, text: short(text), effect: short(effect), file: named, line, ...block };
      }) ?? null,
  };
}

function keepFiles({ files, sources, of_machine }: KeptParts, nameOf: (path: string) => string) {
  let chars = 0;
  const machine_files = new Set(of_machine.map(({ mark, value }) => resolve(dirname(mark.file), value)));
  const shared = files.filter((path) => sources.has(path) || !machine_files.has(path));
  const kept = shared.map((path): KeptFile => {
    const name = nameOf(path);
    const text = blankMachine(path, sources.get(path), of_machine);
    if (text === undefined) return { name, text: null, digest: CODE.includes(extname(path)) ? digestOf(path) : null };
    chars += text.length;
    if (text.length > FILE_CHARS_MAX || chars > CHARS_MAX) return { name, text: null, digest: hashOf(text) };
    return { name, text, digest: null };
  });
  // Own files first.
  const ships = ({ name }: KeptFile) => Number(name.startsWith('appscli/'));
  return kept.toSorted((a, b) => ships(a) - ships(b) || (a.name < b.name ? -1 : 1));
}

const OF_MACHINE = "<each machine's own>";

function blankMachine(path: string, text: string | undefined, of_machine: Loaded['of_machine']): string | undefined {
  const marks = of_machine.flatMap(({ mark }) => (mark.file === path ? mark : []));
  if (text === undefined || marks.length === 0) return text;
  const lines = text.split('\n');
  // From right to left, as a line may have several.
  for (const { line, column, length } of marks.toSorted((a, b) => b.column - a.column)) {
    const before = lines[line - 1] ?? '';
    lines[line - 1] = before.slice(0, column - 1) + OF_MACHINE + before.slice(column - 1 + length);
  }
  return lines.join('\n');
}

function digestOf(path: string): string | null {
  try {
    return hashOf(readFileSync(path));
  } catch {
    return null;
  }
}

function hashOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex').slice(0, DIGITS);
}

function keepFinding(finding: Diagnostic, nameOf: (path: string) => string): KeptFinding {
  const { code, severity, message, file, line, found, expected, help } = finding;
  const words = (text: string | undefined) => (text === undefined ? null : short(text));
  return {
    code,
    severity,
    message: short(message),
    file: nameOf(file),
    line: line ?? null,
    found: words(found),
    expected: words(expected),
    help: words(help),
  };
}

function short(text: string): string {
  return text.length > WORDS_MAX ? `${text.slice(0, WORDS_MAX)}...` : text;
}

interface EndedLoad extends Pick<RecordedLoad, 'cause' | 'changed'> {
  readonly kept: KeptConfiguration | undefined;
  /** The active configuration; absent after a failure. */
  readonly in_force?: { readonly config_hash: string; readonly needs_restart: readonly string[] };
  readonly problem?: string;
}

const HEARTBEAT_MS = 30_000;
const TIDY_EVERY = 120;
/** Longest queue during an outage of the database; the oldest loads are dropped. */
const WAITING_MAX = 20;
const CLOSE_TIMEOUT_MS = 500;

/** Opens the record of loads: a write-behind queue, and a heartbeat of what this replica runs. */
export function openLoadRecord(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  readonly every?: Every;
}) {
  const { database, clock, log, every = everyInBackground } = options;
  const [id, name, program] = [randomUUID(), REPLICA, programVersion()];
  const waiting: { readonly at: Date; readonly load: RecordedLoad }[] = [];
  let runs: Omit<ReplicaConfig, 'seen_at'> | undefined;
  let flushes = 0;
  let flushing: Promise<void> | undefined;
  let is_closed = false;

  function note({ cause, kept, changed, in_force, problem }: EndedLoad): void {
    const at = new Date(clock.now());
    const { version = null, files = [], findings = [], rules = null } = kept ?? {};
    const load: RecordedLoad = {
      ...{ replica: name, cause, failed: in_force === undefined, version, changed, program, files, findings, rules },
      config_hash: in_force?.config_hash ?? null,
      needs_restart: in_force?.needs_restart ?? [],
      problem: problem ?? null,
    };
    waiting.push({ at, load });
    if (waiting.length > WAITING_MAX) waiting.shift();
    if (in_force !== undefined && version !== null) {
      runs = { name, version, cause, loaded_at: at, failing_since: null, program };
    } else if (runs !== undefined) {
      runs = { ...runs, failing_since: runs.failing_since ?? at };
    }
    void flush();
  }

  async function write(): Promise<void> {
    try {
      for (let first = waiting[0]; first !== undefined && !is_closed; first = waiting[0]) {
        await recordLoad(database, first.at, first.load);
        if (waiting[0] === first) waiting.shift();
      }
      const now = new Date(clock.now());
      if (runs !== undefined && !is_closed) await reportReplica(database, id, { ...runs, seen_at: now });
      if (flushes++ % TIDY_EVERY === 0) await tidyLoads(database, now);
    } catch (error) {
      log.debug({ err: error }, 'recording of loads is delayed');
    }
  }

  async function flush(): Promise<void> {
    // Waits for a running flush, which may have missed the last load.
    while (flushing !== undefined) await flushing;
    if (is_closed) return;
    flushing = write().finally(() => {
      flushing = undefined;
    });
    await flushing;
  }

  const stop = every(HEARTBEAT_MS, flush);
  return {
    note,
    /** Writes the queue. Called by a timer, and by tests. Never rejects. */
    flush,
    async close(): Promise<void> {
      stop();
      is_closed = true;
      const forget = async () => {
        await flushing;
        await forgetReplica(database, id);
      };
      await waitAtMost(
        CLOSE_TIMEOUT_MS,
        forget().catch(() => {}),
      );
    },
  };
}

export type LoadRecord = ReturnType<typeof openLoadRecord>;

type LoadEnd =
  | { readonly config: GatewayConfig; readonly loaded: Loaded; readonly needs_restart: readonly string[] }
  | { readonly error: unknown };

/** Records the result of a load, with the paths of changed files. Never throws. */
export type NoteLoad = (cause: LoadCause, end: LoadEnd, changed: readonly string[]) => void;

export function createNoteLoad(config_file: string, record: Pick<LoadRecord, 'note'>): NoteLoad {
  const nameOf = fileNamer(config_file);
  const directory = dirname(resolve(config_file));
  return (cause, end, changed_paths) => {
    const changed = changed_paths.map(nameOf);
    if ('error' in end) {
      const kept =
        end.error instanceof ConfigurationError ? keepVersion(config_file, end.error.findings, null) : undefined;
      record.note({ cause, kept, changed, ...(kept === undefined && { problem: describeProblem(end.error) }) });
      return;
    }
    const { config, loaded, needs_restart } = end;
    const rules = effectiveRules(loaded, config, directory);
    const kept = keepVersion(config_file, loaded, rules);
    record.note({ cause, kept, changed, in_force: { config_hash: configHash(config), needs_restart } });
  };
}

/** Only our own messages: others may quote a secret, which the log redacts. */
function describeProblem(error: unknown): string {
  if (error instanceof StartError) return error.message;
  return 'the configuration passed the checks, but could not be activated; see the log of this gateway';
}
