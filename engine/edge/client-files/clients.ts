import type { Signal } from '../../base/contract/client-telemetry.ts';
import type { ManagedFiles } from '../../base/contract/config.ts';
import type { Fields } from '../../base/kit/json/fields.ts';
import { inFile, isTable, type Scalar, saysTheSame, tablesIn, type Values, valueAt } from './broken-file.ts';
import { mergeJson, parseObject } from './json-text.ts';
import {
  type ClientPlatform,
  callsHelper,
  HELPER_KEEP_MS,
  HELPER_WAIT_SECONDS,
  helperLine,
  isHelperCall,
  type KeyHelper,
} from './key-helper.ts';
import type { ClientNames } from './names.ts';
import { telemetryRows } from './telemetry.ts';
import { mergeToml, parseToml } from './toml-text.ts';

/** A kind of coding client, by its name in commands. */
export type ClientKind = 'messages' | 'coding-cli' | 'build-cli';

/** Where a client's credential comes from: a variable, its files, a key helper, or its own sign-in at the gateway. */
export type Credential =
  | { readonly variable: string }
  | { readonly token: string }
  | { readonly helper: KeyHelper }
  | { readonly sign_in: true };

/** Model tiers with their own variable. */
export const TIERS = ['opus', 'sonnet', 'haiku', 'fable'] as const;

/** Settings of a client for a gateway. */
export interface ClientSpec {
  /** Address of the gateway without `/v1` and without a trailing slash. */
  readonly root_url: string;
  /** Absent: the credential stays unchanged. */
  readonly credential?: Credential | undefined;
  /** Telemetry signals to send to the gateway; an empty list for none, `undefined` for no change. */
  readonly telemetry?: readonly Signal[] | undefined;
  readonly model?: string | undefined;
  /** In tokens. */
  readonly context_window?: number | undefined;
  /** Name of the entry of the build CLI, or of the provider of the coding CLI. */
  readonly alias?: string | undefined;
  readonly display_name?: string | undefined;
  /** Models by tier. This and the following are for the Messages client only. */
  readonly tiers?: Readonly<Partial<Record<(typeof TIERS)[number], string>>>;
  readonly discovery?: boolean;
  readonly cache_1h?: boolean;
}

/** Settings of `appscli client`, which always configures a credential. */
export type SetUpSpec = ClientSpec & { readonly credential: Credential };

/** One setting in a client's file or, below `env`, in its environment. */
export interface Row {
  /** `auth`: the key file of the coding CLI; else the client's configuration. */
  readonly file?: 'auth';
  readonly path: readonly string[];
  /** A table replaces a different table; `undefined` removes the key. */
  readonly value: Scalar | Values | undefined;
  /** Last part of the id of a finding. A row without one is written, but not compared. */
  readonly id?: string;
  readonly why?: string;
  readonly is_minor?: boolean;
  /** Overrides for an absent key. */
  readonly absent?: Pick<Row, 'why' | 'is_minor'>;
  /** Whether `client` only warns, and does not write it. */
  readonly is_kept?: boolean;
  /** Whether `doctor` does not fix it either. */
  readonly is_manual?: boolean;
  /** Accepts further values; `all` is the merged content of all files. */
  readonly ok?: (found: unknown, all: Fields) => boolean;
}

/** The new content of a user's file. */
export interface Draft {
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string;
  /** Whether it contains a credential, so that only its owner may read it. */
  readonly secret: boolean;
  /** Whether a new file is readable by all users of the machine. */
  readonly shared?: boolean;
}

/** File changes for a client, with warnings for the user. */
export interface ClientPlan {
  readonly drafts: readonly Draft[];
  readonly warnings: readonly string[];
}

interface ClientPlace {
  readonly path: string;
  readonly auth?: string | undefined;
  readonly platform: ClientPlatform;
  readonly read: (path: string) => string | undefined;
}

interface ClientTable {
  readonly title: string;
  readonly parse: (text: string) => Record<string, unknown>;
  readonly merge: (text: string, values: Values, drops?: readonly (readonly string[])[]) => string;
  files(names: ClientNames): {
    readonly program: string;
    readonly file: string;
    readonly folder_variable: string;
    readonly managed_file: ManagedFiles;
    readonly enforced_file?: ManagedFiles;
    readonly auth_file?: string;
  };
  rows(spec: ClientSpec, names: ClientNames, platform: ClientPlatform): readonly Row[];
  ours(found: Fields, root_url: string, names: ClientNames): string[][];
}

/** Above the context window of any model, in tokens. */
const LARGEST_WINDOW = 2_000_000;
/** Below the size of a client's own prompts, in tokens. */
const SMALLEST_WINDOW = 10_000;

/** Whether a number of tokens can be the context window of a model. */
export function isWindow(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= SMALLEST_WINDOW && Number(value) <= LARGEST_WINDOW;
}

/** Share of the context window at which a client compacts its conversation. */
const COMPACT_AT = 0.95;

const isOff = (value: unknown) =>
  value === undefined || ['', '0', 'false', 'no', 'off'].includes(String(value).trim().toLowerCase());
const isUnset = (value: unknown) => value === undefined || value === '';
const isName = (value: unknown) => typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_]*$/.test(value);

type Parts = { token?: string; variable?: string; helper?: KeyHelper; sign_in?: true };
const partsOf = (credential: Credential | undefined): Parts => credential ?? {};

/** Settings of the Messages client: sign-in method, sign-in gateway, and key helper command. */
export const SIGN_IN = { method: 'forceLoginMethod', address: 'forceLoginGatewayUrl' };
export const HELPER = 'apiKeyHelper';

const CLOUDS = ['BEDROCK', 'VERTEX', 'FOUNDRY', 'MANTLE'];
const TWO_KEYS = 'the client sends it in addition to the token, and the gateway decides between them';

type Whys = Readonly<Record<string, string>>;

type MakeRow = (
  path: readonly string[],
  value: Row['value'],
  finding?: string | readonly [id: string, why: string],
  more?: Partial<Row>,
) => Row;

const rowsWith =
  (whys: Whys): MakeRow =>
  (path, value, finding, more) => {
    const [id, why] = typeof finding === 'string' ? [finding, whys[finding]!] : (finding ?? []);
    return { path, value, ...(id !== undefined && { id, why: why! }), ...more };
  };

/** KEPT: `client` only warns. MINOR: the client also still works. MANUAL: `doctor` does not fix it either. */
const KEPT = { is_kept: true };
const MINOR = { is_kept: true, is_minor: true };
const MANUAL = { ...MINOR, is_manual: true };

const ROOT = 'the client appends /v1 and the rest of the path itself';
const V1 = 'it must end in /v1, and the client appends the rest of the path';
const isText = (found: unknown) => typeof found === 'string' && found !== '';

const messagesRow = rowsWith({
  address: ROOT,
  sign_in: ROOT,
  context_window: 'the client guesses the window of unknown models, and compacts conversations too late or too early',
  key: 'the client sends it unchanged',
  cache_1h: 'prompts are not cached for an hour',
  provider: 'the client uses that cloud instead of the gateway',
  compaction: 'long sessions fail at the context limit of the model',
});

function messagesRows(spec: ClientSpec, { messages: names }: ClientNames, platform: ClientPlatform): readonly Row[] {
  const { variable_prefix: prefix, feature_prefix: feature } = names;
  const { root_url, credential, model, context_window: window, tiers = {}, discovery, cache_1h } = spec;
  const { token, variable, helper, sign_in: signs_in = false } = partsOf(credential);
  const row = messagesRow;
  const env = (name: string, value?: string, finding?: Parameters<MakeRow>[2], more?: Partial<Row>) =>
    row(['env', name], value, finding, more);
  const off = (names: readonly string[], id: string, more: Partial<Row>) =>
    names.map((name) => env(name, undefined, id, { ok: isOff, ...more }));
  // The sign-in configures the address; with BASE_URL the client would not sign in.
  const beside = signs_in
    ? 'the client does not sign in'
    : "the client sends that token in addition to the key helper's, and the gateway decides between them";
  const of_token: Partial<Row> =
    token === undefined ? { ok: isUnset, is_minor: !signs_in, is_manual: helper !== undefined } : {};
  return [
    ...(credential === undefined
      ? []
      : [
          row([SIGN_IN.method], signs_in ? 'gateway' : undefined),
          row([SIGN_IN.address], signs_in ? root_url : undefined, signs_in ? 'sign_in' : undefined),
          row([HELPER], helper && helperLine(helper, platform)),
        ]),
    signs_in
      ? env(`${prefix}_BASE_URL`, undefined, ['sign_in', beside], { ok: isUnset })
      : env(`${prefix}_BASE_URL`, root_url, 'address'),
    ...(model === undefined ? [] : [env(`${prefix}_MODEL`, model)]),
    ...TIERS.flatMap((tier) =>
      tiers[tier] === undefined ? [] : [env(`${prefix}_DEFAULT_${tier.toUpperCase()}_MODEL`, tiers[tier])],
    ),
    env(`${feature}_MAX_CONTEXT_TOKENS`, window === undefined ? undefined : String(window), 'context_window', {
      is_minor: true,
      is_kept: window === undefined,
      ok: (found) => (isUnset(found) ? knowsWindow(model) : /^\d+$/.test(String(found)) && isWindow(Number(found))),
    }),
    ...(discovery ? [env(`${feature}_ENABLE_GATEWAY_MODEL_DISCOVERY`, '1')] : []),
    ...(cache_1h ? [env('ENABLE_PROMPT_CACHING_1H', '1')] : []),
    ...(credential === undefined || variable !== undefined
      ? []
      : [
          env(
            `${prefix}_AUTH_TOKEN`,
            token,
            token === undefined ? [signs_in ? 'sign_in' : 'key', beside] : 'key',
            of_token,
          ),
          env(`${feature}_API_KEY_HELPER_TTL_MS`, helper && String(HELPER_KEEP_MS)),
        ]),
    env(`${prefix}_API_KEY`, undefined, ['key', TWO_KEYS], {
      ...MINOR,
      ok: (found) => isUnset(found) || found === token,
    }),
    ...off(cache_1h ? ['FORCE_PROMPT_CACHING_5M', 'DISABLE_PROMPT_CACHING'] : [], 'cache_1h', MINOR),
    ...CLOUDS.flatMap((cloud) => off([`${feature}_USE_${cloud}`], 'provider', KEPT)),
    ...off(['DISABLE_AUTO_COMPACT', 'DISABLE_COMPACT'], 'compaction', MINOR),
  ];
}

/** The client knows the windows of its vendor's models, whose ids contain their tier. */
const knowsWindow = (model: string | undefined) =>
  model === undefined || TIERS.some((tier) => model.toLowerCase().includes(tier));

function messagesVariables(names: ClientNames): string[][] {
  const tiers = Object.fromEntries(TIERS.map((tier) => [tier, tier]));
  const credential = { token: '-' };
  const spec = { root_url: '', credential, model: '', context_window: 1, tiers, discovery: true, cache_1h: true };
  const rows = messagesRows(spec, names, 'linux').filter(({ path, is_kept }) => path[0] === 'env' && !is_kept);
  return rows.map(({ path }) => [...path]);
}

/** Name of the provider's section; must not be a built-in provider. */
const PROVIDER = 'custom';
const LATE = 'conversations are not compacted in time, and long sessions fail at the context limit of the model';

const codingRow = rowsWith({
  provider: 'no section has that name, and the client does not start',
  model: 'the client requests a model of its vendor, which the gateway may lack',
  context_window: LATE,
  compact_limit: LATE,
  name: 'the client does not start',
  base_url: V1,
  wire_api: 'the client only supports responses, and does not start',
  supports_websockets: 'the client tries WebSockets several times before plain HTTP',
  profile: 'a profile may override the model and the provider',
  catalogue: 'a model catalogue may override the context window, and conversations are not compacted in time',
  forced_sign_in: 'it forbids keys, and the client does not start',
  key: 'the client sends it unchanged, or sends no key',
  sign_in: 'there is also a vendor sign-in, which the client may send instead of the key',
  store: 'the client does not read the key file',
  key_variable: 'single runs send it instead of the key in the file',
});

function codingRows(spec: ClientSpec, { coding_cli: names }: ClientNames): readonly Row[] {
  const { root_url, credential, model, context_window: window = 0, alias = PROVIDER, display_name } = spec;
  const { token, variable, helper } = partsOf(credential);
  const compact = Math.floor(window * COMPACT_AT);
  const isCompact = (found: unknown) => Number.isSafeInteger(found) && Number(found) > 0 && Number(found) <= compact;
  const of = (key: string) => ['model_providers', alias, key];
  const command = helper && {
    command: helper.program,
    args: helper.args,
    timeout_ms: HELPER_WAIT_SECONDS * 1000,
    refresh_interval_ms: HELPER_KEEP_MS,
  };
  const flag_why = helper === undefined ? 'the client sends no key' : 'the client does not start with two key sources';
  const row = codingRow;
  return [
    ...(token === undefined ? [] : authRows(token, names)),
    row(['model_provider'], alias, 'provider', { absent: { why: 'the client uses its vendor' } }),
    row(['model'], model, 'model', { is_manual: model === undefined, ok: isText }),
    row(['model_reasoning_effort'], 'none'),
    row(['model_context_window'], window, 'context_window', { ok: isWindow }),
    row(['model_auto_compact_token_limit'], compact, 'compact_limit', { ok: isCompact }),
    row(of('name'), display_name ?? PROVIDER, 'name', { ok: isText }),
    row(of('base_url'), `${root_url}/v1`, 'base_url'),
    row(of('wire_api'), 'responses', 'wire_api', {
      absent: { why: 'the default depends on the version of the client', is_minor: true },
    }),
    ...(credential === undefined
      ? []
      : [
          row(of('env_key'), variable, ['env_key', helper === undefined ? NO_VARIABLE : flag_why]),
          row(
            of(names.auth_flag),
            helper !== undefined ? undefined : token !== undefined,
            variable === undefined ? ['auth_flag', flag_why] : undefined,
          ),
          row(of('auth'), command),
        ]),
    row(of('supports_websockets'), false, 'supports_websockets', {
      is_minor: true,
      ok: (found) => found === undefined,
    }),
    row(['profile'], undefined, 'profile', MANUAL),
    row(['model_catalog_json'], undefined, 'catalogue', MANUAL),
    row(['forced_login_method'], undefined, 'forced_sign_in', {
      ...MANUAL,
      is_minor: false,
      ok: (found) => found === undefined || found === 'api',
    }),
  ];
}

const TWO_SIGN_INS = 'there is also a vendor sign-in, and the version of the client decides which one it sends';
const NO_VARIABLE = 'the client cannot send requests unless this names a variable that is set';

function authRows(token: string, { key_name, key_variable }: ClientNames['coding_cli']): readonly Row[] {
  const [row, file] = [codingRow, 'auth' as const];
  return [
    row([key_name], token, 'key', { file }),
    row(['auth_mode'], 'apikey', 'sign_in', {
      file,
      ...KEPT,
      absent: { why: TWO_SIGN_INS, is_minor: true },
      ok: (mode, { tokens }) => mode === 'apikey' || ((mode ?? null) === null && (tokens ?? null) === null),
    }),
    row(['cli_auth_credentials_store'], 'file', 'store', {
      ...KEPT,
      ok: (found) => found === undefined || found === 'auto',
    }),
    row(['env', key_variable], undefined, 'key_variable', {
      ...MINOR,
      ok: (found) => isUnset(found) || found === token,
    }),
  ];
}

/** Side tasks of the build CLI, which use a model of its vendor by default. */
const SIDE_ROLES = ['session_summary', 'image_description'];

const buildRow = rowsWith({
  default_model: 'it must name an entry [model.<alias>]; otherwise the client uses its vendor, with a browser sign-in',
  side_models: 'the client requests a model of its vendor, which the gateway may lack',
  base_url: V1,
  context_window: 'the client compacts conversations by this value',
  api_key: 'the client sends it unchanged, and without it requires a browser sign-in',
  env_key: 'it must be the name of a variable with the key, or the client finds no key',
  overlay: 'it overrides the files, and appscli does not check it',
});

function buildRows(spec: ClientSpec, { build_cli: names }: ClientNames): readonly Row[] {
  const { root_url, credential, model, context_window: window, alias = '', display_name } = spec;
  const { token, variable, helper } = partsOf(credential);
  const isEntry = (found: unknown, { model: entries }: Fields) =>
    tablesIn(entries).some(([name, entry]) => found === name || found === entry.model);
  const isNamed = (name: unknown) => name === undefined || (isName(name) && name !== token);
  const of = (key: string) => ['model', alias, key];
  const table = helper && { command: helper.program, args: helper.args, timeout_secs: HELPER_WAIT_SECONDS };
  const row = buildRow;
  return [
    row(['models', 'default'], alias, 'default_model'),
    ...SIDE_ROLES.map((role) => row(['models', role], alias, 'side_models', { is_minor: true, ok: isEntry })),
    row(of('model'), model),
    row(of('base_url'), `${root_url}/v1`, 'base_url'),
    row(of('name'), display_name ?? model),
    row(of('context_window'), window, 'context_window', {
      ok: isWindow,
      absent: { why: 'the client assumes 200000 tokens' },
    }),
    ...(credential === undefined
      ? []
      : [
          // The client prefers the literal key, then the variable.
          row(of('api_key'), token, 'api_key'),
          row(of('env_key'), variable, 'env_key', {
            ok: (found) => [found].flat().every((name) => name === variable || (token !== undefined && isNamed(name))),
          }),
          row(of('auth_provider'), helper && alias),
          ...(table === undefined ? [] : [row(['auth_provider', alias], table)]),
        ]),
    row(
      ['env', names.model_variable],
      undefined,
      ['default_model', 'it overrides the file, and must name an entry [model.<alias>]'],
      { ...KEPT, ok: (found, all) => isUnset(found) || valueAt(all, ['model', String(found)]) !== undefined },
    ),
    ...names.overlay_variables.map((name) => row(['env', name], undefined, 'overlay', { ...MINOR, ok: isUnset })),
  ];
}

/** All coding clients, in the order of diagnosis. */
export const CLIENTS: Readonly<Record<ClientKind, ClientTable>> = {
  messages: {
    title: 'Messages client',
    parse: parseObject,
    merge: mergeJson,
    files: ({ messages }) => ({ ...messages, file: messages.settings_file }),
    rows: messagesRows,
    ours(found, root_url, names) {
      const signs_in = found[SIGN_IN.address] === root_url;
      const has_helper = callsHelper(found[HELPER], root_url);
      const address = valueAt(found, ['env', `${names.messages.variable_prefix}_BASE_URL`]);
      // A sign-in or helper needs no address; the address of another gateway owns the variables.
      const has_variables = address === root_url || (isUnset(address) && (signs_in || has_helper));
      return [
        ...(signs_in ? [[SIGN_IN.method], [SIGN_IN.address]] : []),
        ...(has_helper ? [[HELPER]] : []),
        ...(has_variables ? messagesVariables(names) : []),
      ];
    },
  },
  'coding-cli': {
    title: 'coding CLI',
    parse: parseToml,
    merge: mergeToml,
    files: ({ coding_cli }) => ({ ...coding_cli, file: coding_cli.config_file }),
    rows: codingRows,
    ours(found, root_url, names) {
      if (valueAt(found, ['model_providers', PROVIDER, 'base_url']) !== `${root_url}/v1`) return [];
      const at_the_top = codingRows({ root_url }, names).filter(({ path, is_kept }) => path.length === 1 && !is_kept);
      const chosen = found.model_provider === PROVIDER ? at_the_top.map(({ path }) => [...path]) : [];
      return [['model_providers', PROVIDER], ...chosen];
    },
  },
  'build-cli': {
    title: 'build CLI',
    parse: parseToml,
    merge: mergeToml,
    files: ({ build_cli }) => ({ ...build_cli, file: build_cli.config_file }),
    rows: buildRows,
    ours({ model, models, auth_provider }, root_url) {
      const aliases = tablesIn(model).flatMap(([name, { base_url }]) => (base_url === `${root_url}/v1` ? [name] : []));
      const roles = Object.entries(isTable(models) ? models : {}).filter(([, alias]) =>
        aliases.includes(String(alias)),
      );
      const helpers = tablesIn(auth_provider).filter(
        ([, { args }]) => Array.isArray(args) && isHelperCall(args, root_url),
      );
      return [
        ...aliases.map((alias) => ['model', alias]),
        ...roles.map(([role]) => ['models', role]),
        ...helpers.map(([name]) => ['auth_provider', name]),
      ];
    },
  },
};

/** Every kind of client. */
export const CLIENT_KINDS = Object.keys(CLIENTS) as ClientKind[];

/** The values of rows as one nested table. */
export function nested(rows: readonly Pick<Row, 'path' | 'value'>[]): Values {
  const result: Record<string, Values[string]> = {};
  for (const { path, value } of rows) {
    let table = result;
    for (const key of path.slice(0, -1)) {
      if (!Object.hasOwn(table, key)) table[key] = {};
      table = table[key] as Record<string, Values[string]>;
    }
    table[path.at(-1)!] = value!;
  }
  return result;
}

/** The text of a file with these rows applied. Raises BrokenFile. */
export function withRows(client: ClientKind, row_file: Row['file'], text: string, rows: readonly Row[]): string {
  const { parse, merge } = row_file === 'auth' ? { parse: parseObject, merge: mergeJson } : CLIENTS[client];
  const found = text.trim() === '' ? {} : parse(text);
  // A table replaces the existing one.
  const differs = ({ path, value }: Row) => isTable(value) && !saysTheSame(valueAt(found, path), value);
  const drops = rows.filter((row) => row.value === undefined || differs(row)).map(({ path }) => path);
  return merge(text, nested(rows.filter(({ value }) => value !== undefined)), drops);
}

function hasOurKey(
  found: Fields,
  { root_url }: ClientSpec,
  { coding_cli: { key_name, auth_flag } }: ClientNames,
  { auth, read }: ClientPlace,
): boolean {
  const of = (key: string) => valueAt(found, ['model_providers', PROVIDER, key]);
  if (auth === undefined || of('base_url') !== `${root_url}/v1` || of(auth_flag) !== true) return false;
  return inFile(auth, () => Object.hasOwn(parseObject(read(auth)?.trim() || '{}'), key_name));
}

/** Plans the file changes that set up a client. Raises BrokenFile. */
export function planClient(client: ClientKind, spec: ClientSpec, names: ClientNames, place: ClientPlace): ClientPlan {
  const { token } = partsOf(spec.credential);
  const { parse, rows: rowsFor } = CLIENTS[client];
  const { path: main, auth, platform, read } = place;
  const text = read(main) ?? '';
  const found = inFile(main, () => (text.trim() === '' ? {} : parse(text)));
  const loses_key = client === 'coding-cli' && spec.credential !== undefined && token === undefined;
  const rows = [
    ...rowsFor(spec, names, platform),
    ...telemetryRows(client, spec, names, { found, platform }),
    ...(loses_key && hasOurKey(found, spec, names, place)
      ? [codingRow([names.coding_cli.key_name], undefined, undefined, { file: 'auth' })]
      : []),
  ];
  const files = (['auth', undefined] as const).flatMap((file) => {
    const path = file === 'auth' ? auth : main;
    const all = rows.filter((row) => row.file === file);
    const own = all.filter((row) => !row.is_kept && (row.path[0] !== 'env' || client === 'messages'));
    return path === undefined || own.length === 0 ? [] : [{ file, path, own, all }];
  });
  const plans = files.map(({ file, path, own, all }) => {
    const before = read(path);
    return inFile(path, () => {
      const after = withRows(client, file, before ?? '', own);
      const secret = token !== undefined && own.some(({ value }) => JSON.stringify(value ?? '').includes(token));
      const result = file === 'auth' ? parseObject(after) : parse(after);
      return { draft: { path, before, after, secret }, warnings: rowWarnings(all, result, path) };
    });
  });
  return { drafts: plans.map(({ draft }) => draft), warnings: plans.flatMap(({ warnings }) => warnings) };
}

/** Warnings about settings, in a file or below `env`, that override the client's set-up. */
export function rowWarnings(rows: readonly Row[], set: Fields, where: string): string[] {
  return rows.flatMap((row) => {
    const { path, value, why } = row;
    const found = valueAt(set, path);
    if (why === undefined || (found === undefined && value === undefined) || isRight(row, found, set)) return [];
    if (value === undefined) return [`${path.at(-1)} is set in ${where}: remove it, otherwise ${why}`];
    return row.is_kept ? [`${path.at(-1)} is not "${String(value)}" in ${where}: ${why}`] : [];
  });
}

/** Whether a setting is right. */
export function isRight({ value, ok }: Row, found: unknown, all: Fields): boolean {
  if (value === undefined && ok !== undefined) return ok(found, all);
  return saysTheSame(found, value) || ok?.(found, all) === true;
}

/** Plans the removal of a gateway's settings from the files of a client. Raises BrokenFile. */
export function planRemoval(client: ClientKind, root_url: string, names: ClientNames, place: ClientPlace): ClientPlan {
  const { parse, merge, ours } = CLIENTS[client];
  const { path, auth, platform, read } = place;
  const before = read(path);
  const found = inFile(path, () => (before === undefined || before.trim() === '' ? {} : parse(before)));
  const own = ours(found, root_url, names);
  const spec = { root_url, telemetry: [] };
  const drops = [...own, ...telemetryRows(client, spec, names, { found, platform }).map((row) => row.path)];
  if (before === undefined || drops.length === 0) return { drafts: [], warnings: [] };
  const main = { path, before, after: inFile(path, () => merge(before, {}, drops)), secret: false };
  if (client !== 'coding-cli' || !hasOurKey(found, spec, names, place)) return { drafts: [main], warnings: [] };
  const kept = read(auth!)!;
  const after = inFile(auth!, () => mergeJson(kept, {}, [[names.coding_cli.key_name]]));
  return { drafts: [{ path: auth!, before: kept, after, secret: true }, main], warnings: [] };
}

/** Shell variables that replace the Messages client's settings, without its credential. */
export function shellVariables(spec: ClientSpec, names: ClientNames): Record<string, string> {
  const rows = [
    ...messagesRows(spec, names, 'linux'),
    ...telemetryRows('messages', spec, names, { found: {}, platform: 'linux' }),
  ];
  const { feature_prefix } = names.messages;
  return Object.fromEntries([
    ...rows.flatMap(({ path, value }) => (path[0] === 'env' && typeof value === 'string' ? [[path[1]!, value]] : [])),
    // Only this switch: other programs share the OTEL variables of a shell.
    ...(spec.telemetry?.length === 0 ? [[`${feature_prefix}_ENABLE_TELEMETRY`, '0']] : []),
  ]);
}
