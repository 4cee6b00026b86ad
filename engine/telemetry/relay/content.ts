import type { AnyValue, KeyValue } from './otlp/messages.ts';

/**
 * Words of attribute names that stand for text of prompts, tools or answers, or for what a tool was asked to touch. Real
 * ones: `prompt`, `user_prompt`, `response`, `tool_input`, `tool_parameters`, `full_command`, `file_path`, `body`, `arguments`,
 * `output`, `gen_ai.input.messages`, `gen_ai.system_instructions`, `process.command_args`, `exception.stacktrace`.
 */
const CONTENT_WORDS: ReadonlySet<string> = new Set(
  `answer answers arg args argument arguments argv attachment attachments bodies body chunk cmd cmdline code command commands completion
  completions content contents context cwd data definition definitions description detail details diff dir directory document
  documents edit edits error errors exception file filename filepath files folder input inputs instruction instructions
  issue line lines memory message messages new notes old output outputs parameter parameters params patch path paths payload preview
  prompt prompts queries query question questions raw reasoning reminder reminders
  reply request requests response responses result results schema
  script search snippet source_code stack stacktrace stderr stdin stdout summary task text texts thinking thought thoughts
  title todo todos tools transcript uri url urls value values workspace`
    .trim()
    .split(/\s+/),
);

/** Last words of names whose values tell something about a text, and not the text. */
const MEASURE_WORDS: ReadonlySet<string> = new Set(
  `attempt bytes category chars choice class code count cost depth digest duration effort enabled encoding fingerprint format hash id
  ids index kind language length level lineno locale method mime mode model ms name namespace number ordinal origin outcome reason
  reasons role scope seconds sha sha1 sha256 size source state status success tier time timeout timestamp tokens total trigger type
  types usd usage uuid version`
    .trim()
    .split(/\s+/),
);

/** Words whose names are content: `file.name` as much as `filename`. */
const PLACE_WORDS: ReadonlySet<string> = new Set(['file', 'files', 'path', 'dir', 'directory', 'folder', 'document']);

/** Names of the OpenTelemetry conventions that these words would take for content: of a program's own code, and of hosts. */
const HARMLESS = /^(?:code\.|telemetry\.|service\.|os\.description$|host\.|deployment\.|event\.name$|http\.route$)/;
/** A number, a truth value or nothing in particular, written as text. */
const PLAIN_VALUE = /^(?:[-+]?\d[\d.e+-]{0,30}|true|false|null|none|auto|unknown|)$/i;
/** Text that is JSON, or markup: more than a word of it is inside. */
const STRUCTURED = /^\s*(?:[{<]|\[\s*[^\]\s])/;
/** A mail address, and paths that have the name of a user's account in them or are below a user's folder. */
const PERSONAL =
  /[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?![\w])|(?:^|[^\w.])(?:\/(?:home|Users)\/[^/\s]|\/root\/|~\/)|\b[a-z]:[\\/]+Users[\\/]/i;
/** Longest text that may be a name, an identifier or a state. */
const SHORT_CHARS = 256;
/** One word: what names and identifiers look like. */
const NAME = /^[\w.:/@-]{1,128}$/;

/** Words of an attribute's name, however they are joined: `a.b`, `a_b`, `a-b`, `aB`; without a number behind them: `argv0`. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .map((word) => (MEASURE_WORDS.has(word) ? word : word.replace(/\d+$/, '')))
    .filter((word) => word !== '');
}

/** What an attribute's name says of a text it holds: content itself, a word about content, or nothing of the kind. */
type Kind = 'content' | 'measure' | 'other';

const known = new Map<string, Kind>();
/** Names are a client's to choose; no more than this are remembered. */
const KNOWN_MAX = 5000;
const KNOWN_CHARS = 100;

function kindOf(name: string): Kind {
  const remembered = known.get(name);
  if (remembered !== undefined) return remembered;
  const kind = judgeName(name);
  if (known.size < KNOWN_MAX && name.length <= KNOWN_CHARS) known.set(name, kind);
  return kind;
}

function judgeName(name: string): Kind {
  if (HARMLESS.test(name)) return 'other';
  const words = wordsOf(name);
  if (!words.some((word) => CONTENT_WORDS.has(word))) return 'other';
  const last = words.at(-1)!;
  if (words.length === 1 || !MEASURE_WORDS.has(last)) return 'content';
  return last === 'name' && words.some((word) => PLACE_WORDS.has(word)) ? 'content' : 'measure';
}

/** Whether a text is longer than a name, an identifier or a state is, or has several lines. */
export function isLongText(text: string): boolean {
  return text.length > SHORT_CHARS || /[\r\n]/.test(text);
}

/** Whether a text names somebody, by an address or a user's folder. */
export function isPersonal(text: string): boolean {
  return PERSONAL.test(text);
}

/** Whether a text is a name rather than words, and nobody's. */
export function isName(text: string): boolean {
  return NAME.test(text) && !isPersonal(text);
}

function isContentText(name: string, text: string): boolean {
  if (isLongText(text) || STRUCTURED.test(text) || isPersonal(text)) return true;
  if (PLAIN_VALUE.test(text)) return false;
  const kind = kindOf(name);
  return kind === 'content' || (kind === 'measure' && !isName(text));
}

/** Whether a value, which an attribute of this name has, holds content at any depth. Bytes could be anything. */
export function isContent(name: string, value: AnyValue | null | undefined): boolean {
  if (value === null || value === undefined) return false;
  if (typeof value.stringValue === 'string' && isContentText(name, value.stringValue)) return true;
  if ((value.bytesValue?.length ?? 0) > 0) return true;
  if (value.arrayValue?.values?.some((one) => isContent(name, one))) return true;
  return (value.kvlistValue?.values ?? []).some((entry) => isContentEntry(name, entry));
}

function isContentEntry(owner: string, { key, value }: KeyValue): boolean {
  const name = key ?? '';
  return isLongText(name) || isContent(owner, value) || isContent(name, value);
}
