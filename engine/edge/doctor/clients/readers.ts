import { dirname, join } from 'node:path';
import { failed } from '../../../base/contract/checks.ts';
import type { Fields } from '../../../base/kit/json/fields.ts';
import { printableLine, printableWord } from '../../../base/kit/text/printable.ts';
import { listed } from '../../../base/kit/text/suggest.ts';
import { isTable, tablesIn, valueAt } from '../../client-files/broken-file.ts';
import { type ClientSpec, type Credential, HELPER, isWindow, SIGN_IN, TIERS } from '../../client-files/clients.ts';
import { pathOfFile } from '../../client-files/names.ts';
import type { Diagnosis, Workstation } from '../workstation.ts';
import {
  type Found,
  helperOf,
  keyIn,
  noAddress,
  noKey,
  placeOf,
  type Reading,
  readKeyText,
  readVariableText,
  rootOf,
  type Sources,
  USUAL_WINDOW,
  windowOf,
} from './sources.ts';

export function folderFiles({ env, folder, names: { messages } }: Workstation) {
  // The project folder has the same name as the one in the home directory.
  const name = dirname(messages.settings_file).split(/[\\/]/).at(-1)!;
  const user = pathOfFile(messages.settings_file, env, messages.folder_variable);
  const files = [
    ['project', join(folder, name, 'settings.json')],
    ['local', join(folder, name, 'settings.local.json')],
  ] as const;
  return files.filter(([, path]) => path !== user);
}

interface Text {
  readonly text: string;
  readonly found: Found;
  readonly path: readonly string[];
}

/** Reads the Messages client's configuration: its environment, overridden by its settings. */
export function readMessages(workstation: Workstation, sources: Sources): Reading {
  const { variable_prefix: prefix, feature_prefix: feature } = workstation.names.messages;
  const read = (...path: string[]): Text | undefined => {
    const found = sources.find(path);
    const text = found === undefined ? '' : String(found.value).trim();
    return found === undefined || text === '' ? undefined : { text, found, path };
  };
  const env = (end: string) => read('env', `${prefix}_${end}`);
  const [address, token, legacy] = [env('BASE_URL'), env('AUTH_TOKEN'), env('API_KEY')];
  const gateway = read(SIGN_IN.method)?.text === 'gateway' ? read(SIGN_IN.address) : undefined;
  const signs_in = gateway !== undefined && !(address !== undefined && token !== undefined);
  const from = signs_in ? gateway : address;
  if (from === undefined)
    return token === undefined ? {} : { findings: [sentToVendor(sources, token, `${prefix}_BASE_URL`)] };
  const root_url = rootOf(from.text);
  if (root_url === undefined) return { findings: [noAddress('messages', from.found, from.path)] };

  const helper = read(HELPER);
  const sent = token ?? (helper === undefined ? legacy : undefined);
  const key = sent && readKeyText(sent.found.value as string);
  const text = key !== undefined && 'key' in key ? key.key : undefined;
  const is_of_folder = isOfFolder(from.found);
  const credential_source = sent ?? helper;
  const is_lent =
    is_of_folder && credential_source !== undefined && credential_source.found.source !== from.found.source;
  const command =
    helper === undefined || sent !== undefined || isOfFolder(helper.found)
      ? undefined
      : { command: { line: helper.text }, where: placeOf(helper.found.source, helper.path) };
  const credential = signs_in
    ? { sign_in: true as const }
    : helper !== undefined
      ? { helper: { program: '', args: [] } }
      : token !== undefined && text !== undefined
        ? { token: text }
        : undefined;
  const tierOf = (tier: string) => plainModel(env(`DEFAULT_${tier.toUpperCase()}_MODEL`)?.text);
  const named = plainModel((env('MODEL') ?? read('model'))?.text);
  const is_tier = TIERS.some((tier) => tier === named);
  const model = is_tier ? tierOf(named!) : ['default', 'best', 'opusplan'].includes(named ?? '') ? undefined : named;
  const window = Number(read('env', `${feature}_MAX_CONTEXT_TOKENS`)?.text);
  const one_hour = read('env', 'ENABLE_PROMPT_CACHING_1H')?.text ?? '';
  return {
    spec: {
      root_url,
      credential,
      model,
      context_window: isWindow(window) ? window : undefined,
      cache_1h: !['', '0', 'false', 'no', 'off'].includes(one_hour.toLowerCase()),
    },
    token: is_lent || signs_in ? undefined : text,
    helper: is_lent || signs_in ? undefined : command,
    more_models: [...new Set(TIERS.flatMap((tier) => tierOf(tier) ?? []))].filter((each) => each !== model),
    is_of_folder,
    findings: [
      ...(is_lent ? [lentOut(sources, credential_source, from)] : []),
      ...(signs_in || text !== undefined || helper !== undefined
        ? []
        : [without(sources, sent, `${prefix}_AUTH_TOKEN`)]),
    ],
  };
}

const plainModel = (text: string | undefined) => text?.replace(/\[1m\]$/i, '');

/** Whether the value comes from a project file, which is untrusted. */
const isOfFolder = ({ source }: Found) => source.kind === 'project' || source.kind === 'local';

function sentToVendor(sources: Sources, { found, path }: Text, variable: string): Diagnosis {
  const remedy = 'appscli client messages --base-url https://gateway.example.com';
  const problem = `${variable} is not set, so the client sends the token to its vendor`;
  return { ...noKey(sources, placeOf(found.source, path), problem, remedy), id: 'messages.address' };
}

function without(sources: Sources, sent: Text | undefined, variable: string): Diagnosis {
  const remedy =
    'create a token at the gateway and configure it: appscli client messages --token-stdin, or --key-helper with an identity provider';
  if (sent !== undefined) {
    const found = `${sent.path.at(-1)} contains a placeholder or a variable name instead of a key`;
    return noKey(sources, placeOf(sent.found.source, sent.path), found, remedy);
  }
  const found = `${variable} is not set, and there is no key helper: the client would send its vendor login to the gateway`;
  return noKey(sources, sources.paths.user, found, remedy);
}

/** A project file sends the user's credential to an address of its author's choice. */
function lentOut(sources: Sources, credential: Text, address: Text): Diagnosis {
  const found = `a project file names the gateway, and the client sends it the credential from ${placeOf(credential.found.source, credential.path)}; the doctor did not send it`;
  const remedy = `if you do not trust that gateway, do not start the client here; otherwise query it with --base-url, or remove ${address.path.at(-1)} from that file`;
  return { ...noKey(sources, placeOf(address.found.source, address.path), found, remedy), verdict: 'warning' };
}

export function readCodingCli(workstation: Workstation, sources: Sources): Reading {
  const { values, auth, paths } = sources;
  const { built_in_providers: built_in } = workstation.names.coding_cli;
  const chosen_name = values.model_provider;
  const sections = tablesIn(values.model_providers);
  const of_gateway = sections.filter(([, { base_url }]) => base_url !== undefined);
  const is_chosen = chosen_name !== undefined && !built_in.includes(String(chosen_name));
  // A user with a vendor sign-in may want to use the vendor.
  const is_signed_in = (auth.tokens ?? undefined) !== undefined;
  const is_meant = chosen_name === undefined && of_gateway.length > 0 && !is_signed_in;
  const chosen = sections.find(([name]) => name === chosen_name);
  if (!is_chosen && !is_meant && chosen === undefined) return {};
  const [alias, section] = chosen ?? (of_gateway.length === 1 ? of_gateway[0]! : []);
  if (alias === undefined || section === undefined) return { findings: [noProvider(sources, sections)] };
  if (built_in.includes(alias)) return { findings: [reserved(sources, alias)] };
  const path = ['model_providers', alias];
  const address = sources.find([...path, 'base_url']);
  const root_url = rootOf(address?.value);
  if (address === undefined || root_url === undefined) {
    if (address !== undefined) return { findings: [noAddress('coding-cli', address, [...path, 'base_url'])] };
    return { findings: [noProvider(sources, of_gateway)] };
  }
  const { display_name, ...key } = { display_name: section.name, ...codingKey(workstation, sources, alias, section) };
  const { model, model_context_window: window, model_auto_compact_token_limit: limit } = values;
  const tokens = windowOf(window) ?? Math.round((windowOf(limit) ?? 0) / 0.95);
  return {
    spec: {
      root_url,
      alias,
      credential: key.credential,
      model: typeof model === 'string' && model !== '' ? model : undefined,
      context_window: isWindow(tokens) ? tokens : USUAL_WINDOW,
      ...(typeof display_name === 'string' && { display_name }),
    },
    token: key.token,
    helper: key.helper,
    findings: [
      ...(key.credential === undefined && key.token === undefined && !key.is_elsewhere
        ? [noKeyAt(workstation, sources, paths.auth!)]
        : []),
      ...(key.unset === undefined ? [] : [unsetVariable(sources, alias, key.unset)]),
    ],
  };
}

interface Key extends Pick<Reading, 'token' | 'helper'> {
  readonly credential?: Credential | undefined;
  /** Whether the key is in a store that the doctor does not read. */
  readonly is_elsewhere?: boolean;
  readonly unset?: string;
  readonly fault?: Diagnosis;
}

function codingKey(workstation: Workstation, sources: Sources, alias: string, section: Fields): Key {
  const { key_name } = workstation.names.coding_cli;
  const { env_key, auth: command, experimental_bearer_token: literal, api_key } = section;
  const path = ['model_providers', alias, 'auth', 'command'];
  const source = sources.find(path)?.source;
  const helper = source && helperOf(command, placeOf(source, path));
  if (helper !== undefined) return { credential: { helper: helper.command as never }, helper };
  const in_file = keyIn(sources.auth[key_name]);
  if (typeof env_key === 'string') {
    const variable = readVariableText(env_key, workstation.env);
    if (variable.kind === 'key') return { credential: { token: variable.key } };
    const name = 'name' in variable ? variable.name : '';
    const token = keyIn(workstation.env[name]);
    if (token !== undefined) return { credential: { variable: name }, token };
    if (in_file === undefined && name !== '') return { credential: { variable: name }, unset: name };
  }
  // The other settings can still be compared.
  if (sources.is_auth_broken) return { credential: { token: '-' } };
  const token = in_file ?? keyIn(literal) ?? keyIn(api_key);
  if (in_file === undefined && keyIn(literal) !== undefined) return { token };
  if (token !== undefined) return { credential: { token }, token: in_file };
  return { is_elsewhere: sources.values.cli_auth_credentials_store === 'keyring' };
}

function noKeyAt(workstation: Workstation, sources: Sources, auth: string): Diagnosis {
  const { key_name, ignored_variables } = workstation.names.coding_cli;
  const ignored = [key_name, ...ignored_variables].filter((name) => (workstation.env[name] ?? '') !== '');
  const not_read =
    ignored.length === 0 ? '' : `; the client does not read the variable ${ignored.join(' and ')} for this provider`;
  const found = `no ${key_name} in ${auth}, and no other key: the client sends none${not_read}`;
  const remedy = 'appscli client coding-cli --base-url https://gateway.example.com prompts for the key and writes it';
  return noKey(sources, auth, found, remedy);
}

function unsetVariable(sources: Sources, alias: string, name: string): Diagnosis {
  const path = ['model_providers', alias, 'env_key'];
  const where = placeOf(sources.find(path)!.source, path);
  const found = `env_key names ${printableWord(name)}, which is not set: the client cannot send requests`;
  const remedy = `set ${printableWord(name)} in your shell profile, and start the client from a new shell`;
  return { ...noKey(sources, where, found, remedy), id: 'coding_cli.env_key' };
}

const PROVIDER = { id: 'coding_cli.provider', title: 'provider of the coding CLI' };

function noProvider({ paths }: Sources, sections: ReturnType<typeof tablesIn>): Diagnosis {
  const names = listed(sections.map(([name]) => printableWord(name)));
  return failed(
    'model_provider names no section with a gateway address: the client does not start, or uses its vendor',
    `set model_provider, at the top of the file, to the name of a section${names === '' ? '' : `: ${names}`}; appscli client coding-cli writes one`,
    { ...PROVIDER, where: paths.user },
  );
}

function reserved({ paths }: Sources, name: string): Diagnosis {
  return failed(
    `[model_providers.${name}] has the name of a built-in provider: the client does not start`,
    'rename the section, for example to custom, also in model_provider',
    { ...PROVIDER, where: paths.user },
  );
}

export function readBuildCli(workstation: Workstation, sources: Sources): Reading {
  const { values, paths } = sources;
  const entries = tablesIn(values.model);
  const of_gateway = entries.filter(([, { base_url }]) => base_url !== undefined);
  if (of_gateway.length === 0) return {};
  const named = workstation.env[workstation.names.build_cli.model_variable] || valueAt(values, ['models', 'default']);
  const aliases = entries.map(([alias]) => alias);
  const [alias, entry] =
    entries.find(([name]) => name === named) ??
    of_gateway.find(([, { model }]) => model === named) ??
    (of_gateway.length === 1 ? of_gateway[0]! : []);
  const readAll = (root_url: string | undefined) =>
    of_gateway
      .filter(([, { base_url }]) => root_url !== undefined && rootOf(base_url) === root_url)
      .map(([name, values]) => {
        const { model, context_window, name: display_name } = values;
        const { credential, fault, ...key } = buildKey(workstation, sources, name, values);
        const window = windowOf(context_window);
        const spec: ClientSpec = {
          root_url: root_url!,
          alias: name,
          credential,
          model: typeof model === 'string' ? model : name,
          context_window: isWindow(window) ? window : USUAL_WINDOW,
          ...(typeof display_name === 'string' && { display_name }),
        };
        // A model that is not selected may lack its key for now.
        const faults = fault === undefined || (name !== alias && values.api_key === undefined) ? [] : [fault];
        return { ...key, spec, faults };
      });
  // An entry without base_url is a built-in model, which the client requests from its vendor.
  if (alias === undefined || entry?.base_url === undefined) {
    const [root_url, ...more] = new Set(of_gateway.map(([, { base_url }]) => rootOf(base_url)));
    const others = more.length === 0 ? readAll(root_url) : [];
    const faults = others.flatMap((other) => other.faults);
    const missing = entry === undefined ? [noDefault(paths.user, aliases)] : [];
    return { findings: [...missing, ...faults], others: others.map(({ spec }) => spec) };
  }
  const path = ['model', alias, 'base_url'];
  const address = sources.find(path)!;
  const root_url = rootOf(address.value);
  if (root_url === undefined) return { findings: [noAddress('build-cli', address, path)] };
  const all = readAll(root_url);
  const { spec, token, helper } = all.find((each) => each.spec.alias === alias)!;
  const others = all.filter((each) => each.spec !== spec).map((each) => each.spec);
  return { spec, token, helper, others, findings: all.flatMap(({ faults }) => faults) };
}

function noDefault(where: string, aliases: readonly string[]): Diagnosis {
  return failed(
    'default in [models] names no entry [model.<alias>]: the client uses its vendor and requires a browser sign-in',
    `set default in [models] to the alias of an entry: ${listed(aliases.map(printableLine))}`,
    { id: 'build_cli.default_model', title: 'default model of the build CLI', where },
  );
}

function buildKey(workstation: Workstation, sources: Sources, alias: string, entry: Fields): Key {
  const {
    env,
    names: { build_cli: names },
  } = workstation;
  const { api_key, auth_provider } = entry;
  const literal = keyIn(api_key);
  if (literal !== undefined) return { credential: { token: literal }, token: literal };
  const reference = typeof api_key === 'string' ? readKeyText(api_key) : undefined;
  const texts = [entry.env_key ?? (reference !== undefined && 'name' in reference ? reference.name : [])].flat();
  const read = texts.flatMap((text) => (typeof text === 'string' ? [readVariableText(text, env)] : []));
  const variables = read.flatMap((text) => ('name' in text ? [text.name] : []));
  const set = variables.find((name) => keyIn(env[name]) !== undefined);
  if (set !== undefined) return { credential: { variable: set }, token: keyIn(env[set]) };
  const misplaced = read.flatMap((text) => ('key' in text ? [text.key] : []));
  if (misplaced.length > 0) return { credential: { token: misplaced[0]! } };
  if (typeof auth_provider === 'string') {
    const path = ['auth_provider', auth_provider];
    const source = sources.find(path)?.source;
    const helper = source && helperOf(valueAt(sources.values, path), placeOf(source, path));
    // Other helpers may print JSON, which only the client can parse.
    const is_ours = helper !== undefined && 'args' in helper.command && helper.command.args.includes('token');
    if (helper !== undefined) return { ...(is_ours && { helper }) };
  }
  const headers = [entry.extra_headers, entry.env_http_headers].filter(isTable).flatMap(Object.keys);
  if (headers.some((name) => /^(?:authorization|x-api-key|api-key)$/i.test(name))) return {};
  const [variable] = variables;
  const credential = variable === undefined ? undefined : { variable };
  const general = [names.key_variable, names.older_key_variable].find((name) => keyIn(env[name]) !== undefined);
  const has_session = isSignedIn(workstation);
  // A vendor sign-in takes precedence over the general key variables.
  if (general !== undefined && !has_session) return { credential, token: keyIn(env[general]) };
  const unset =
    variable === undefined
      ? api_key === undefined
        ? 'the entry has neither api_key nor env_key'
        : 'api_key contains no key'
      : `${listed(variables)} of env_key is not set here`;
  const then = has_session
    ? 'the client would send its vendor login to the gateway'
    : 'the client requires a browser sign-in';
  const ignored = names.ignored_variables.filter((name) => (env[name] ?? '') !== '');
  const not_read = ignored.length === 0 ? '' : `; the client does not read ${ignored.join(' and ')}`;
  const remedy =
    variable === undefined
      ? 'name a variable with the key (env_key = "RELAY_API_KEY") and set it, or set the key itself as api_key'
      : `set ${variable} in your shell profile, and start the client from a new shell`;
  const source = sources.find(['model', alias])?.source;
  const where = source === undefined ? sources.paths.user : placeOf(source, ['model', alias, 'env_key']);
  return { credential, fault: noKey(sources, where, `${unset}: ${then}${not_read}`, remedy) };
}

function isSignedIn({ names: { build_cli }, env, read }: Workstation): boolean {
  try {
    const text = read(pathOfFile(build_cli.session_file, env, build_cli.folder_variable))?.trim() ?? '';
    return text !== '' && text !== '{}' && text !== 'null';
  } catch {
    return false;
  }
}
