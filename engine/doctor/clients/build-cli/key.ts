import { isTable } from '../../../client-files/broken-file.ts';
import { printableLine } from '../../../kit/text/printable.ts';
import { listed } from '../../../kit/text/suggest.ts';
import type { Diagnosis, HelperCommand } from '../../diagnosis.ts';
import { examineRights } from '../client-file.ts';
import { readKeyText, readVariableText, shownText } from '../credential-text.ts';
import { fixToml, tablesIn, valuesAt, whereIs } from '../toml-layers.ts';
import { nameOf } from './entry.ts';
import type { BuildCli, Entry } from './file.ts';

/** What the client would send as its key, and what is wrong with it. */
export interface KeyExamination {
  readonly token: string | undefined;
  /** The command that prints it. */
  readonly helper?: HelperCommand;
  readonly diagnoses: readonly Diagnosis[];
}

/** What an entry says about its key, in the order in which the client goes by it. */
export function examineKey(client: BuildCli, entry: Entry): KeyExamination {
  const faults = examineKeyTexts(client, entry);
  const source = findSource(client, entry);
  const path = entry.pathOf('api_key' in entry.values ? 'api_key' : 'env_key');
  const named = { id: 'build_cli.key', title: `key of ${nameOf(entry)}`, where: whereIs(client.layers, path) };
  const locked = tablesIn(client.layers.values).find(([, table]) => table.disable_api_key_auth === true)?.[0];
  if (locked !== undefined) {
    const where = whereIs(client.layers, [locked, 'disable_api_key_auth']);
    const found = 'disable_api_key_auth is set: the client takes no key, and wants a sign-in in a browser';
    const remedy = 'take disable_api_key_auth away, or ask who manages this machine';
    return { token: undefined, diagnoses: [...faults, { ...named, where, verdict: 'failed', found, remedy }] };
  }
  // What is wrong with a text that is meant to be the key says it all.
  if (source.verdict === 'failed' && faults.length > 0) return { token: source.token, diagnoses: faults };
  const { token, helper, ...outcome } = source;
  return { token, ...(helper && { helper }), diagnoses: [...faults, { ...named, ...outcome }] };
}

interface Source extends Pick<Diagnosis, 'verdict' | 'found' | 'remedy' | 'details'> {
  readonly token: string | undefined;
  readonly helper?: HelperCommand | undefined;
}

function findSource(client: BuildCli, entry: Entry): Source {
  const { desk, names, layers, has_session } = client;
  const { api_key, auth_provider, extra_headers, env_http_headers } = entry.values;
  const variables = variablesOf(client, entry);
  const set = variables.find((name) => (desk.env[name] ?? '').trim() !== '');
  if (typeof api_key === 'string' && api_key !== '') {
    const details =
      set === undefined ? {} : { details: [`${set} is set too, and not read: api_key wins over env_key`] };
    const key = readKeyText(api_key);
    const found = 'it is in the file, as api_key';
    if (key.kind === 'key') return { verdict: 'ok', found, token: key.key, ...details };
    return {
      verdict: 'failed',
      found,
      token: key.kind === 'padded' ? key.key : undefined,
      remedy: 'write the key into api_key',
    };
  }
  if (set !== undefined) return fromVariable(set, desk.env[set]!);
  if (typeof auth_provider === 'string') return fromProvider(client, auth_provider);
  if (hasKeyHeader(extra_headers) || hasKeyHeader(env_http_headers)) {
    return { verdict: 'ok', found: 'it is in headers of the entry', token: undefined };
  }
  const unset =
    variables.length === 0
      ? 'the entry has neither api_key nor env_key'
      : `${listed(variables)} of env_key is not set here`;
  const remedy =
    variables.length === 0
      ? 'name a variable that holds the key (env_key = "RELAY_API_KEY") and set it, or give the key itself as api_key'
      : `set ${variables[0]} in the profile of your shell, and start the client from a new one`;
  if (has_session) {
    const found = `${unset}: the client sends the sign-in to its vendor instead, which the gateway cannot take and should not see`;
    return { verdict: 'failed', found, remedy, token: undefined };
  }
  const general = [names.key_variable, names.older_key_variable].find((name) => (desk.env[name] ?? '') !== '');
  if (general !== undefined) {
    const details = [`${unset}; ${general} is what the client takes last, for every entry and for its vendor as well`];
    return { ...fromVariable(general, desk.env[general]!), details };
  }
  const found = `${unset}, there is no sign-in, and ${names.key_variable} is not set: the client wants a sign-in in a browser`;
  return { verdict: 'failed', found, remedy, token: undefined, ...ignoredVariables(client, layers.user_path) };
}

function fromVariable(name: string, value: string): Source {
  const key = readKeyText(value.trim());
  if (key.kind === 'key') return { verdict: 'ok', found: `it is in the variable ${name}`, token: key.key };
  const found =
    key.kind === 'padded'
      ? `${name} begins with the word Bearer, which the client adds itself`
      : `${name} holds no key, but what stands for one in examples`;
  return {
    verdict: 'failed',
    found,
    remedy: `set ${name} to the key alone`,
    token: key.kind === 'padded' ? key.key : undefined,
  };
}

function fromProvider({ layers }: BuildCli, name: string): Source {
  const provider = tablesIn(layers.values.auth_provider).find(([each]) => each === name)?.[1];
  if (typeof provider?.command === 'string' && provider.command !== '') {
    const { command, args } = provider;
    const where = whereIs(layers, ['auth_provider', name, 'command']);
    // What others print may be JSON, which only the client reads.
    const is_ours = Array.isArray(args) && args.every((arg) => typeof arg === 'string') && args.includes('token');
    const helper = is_ours ? { command: { program: command, args }, where } : undefined;
    return {
      verdict: 'ok',
      found: `the command of [auth_provider.${printableLine(name)}] prints it`,
      token: undefined,
      helper,
    };
  }
  const found = `auth_provider is ${shownText(name)}, and [auth_provider] has no command by that name: the client sends no key`;
  const remedy = 'set the entry up again with appscli client build-cli --key-helper';
  return { verdict: 'failed', found, remedy, token: undefined };
}

function hasKeyHeader(headers: unknown): boolean {
  return isTable(headers) && Object.keys(headers).some((name) => /^(?:authorization|x-api-key|api-key)$/i.test(name));
}

function variablesOf({ desk }: BuildCli, { values }: Entry): string[] {
  const texts = [values.env_key].flat().filter((text) => typeof text === 'string');
  return texts.flatMap((text) => {
    const variable = readVariableText(text, desk.env);
    return variable.kind === 'name' ? [variable.name] : [];
  });
}

/** Texts that are a key where the name of a variable belongs, and the other way round. */
export function examineKeyTexts(client: BuildCli, entry: Entry): Diagnosis[] {
  return [...examineEnvKey(client, entry), ...examineApiKey(client, entry)];
}

function examineEnvKey(client: BuildCli, entry: Entry): Diagnosis[] {
  const { desk, layers } = client;
  const path = entry.pathOf('env_key');
  const texts = [entry.values.env_key].flat().filter((text) => typeof text === 'string');
  const read = texts.map((text) => readVariableText(text, desk.env));
  const named = {
    id: 'build_cli.env_key',
    title: `variable with the key of ${nameOf(entry)}`,
    where: whereIs(layers, path),
  };
  const key = read.find((text) => text.kind === 'key');
  if (key !== undefined) {
    const names = read.flatMap((text) => ('name' in text ? [text.name] : []));
    const has_key = readKeyText(String(entry.values.api_key ?? '')).kind === 'key';
    const is_set = names.some((name) => (desk.env[name] ?? '') !== '');
    const api_key = [...path.slice(0, -1), 'api_key'];
    // A key that is used goes on being used: this one takes its place only where there is none.
    const set = has_key || is_set ? {} : valuesAt(api_key, key.key);
    const rest = names.length === 0 ? { drop: [path] } : { set: merged(set, valuesAt(path, names)) };
    return [
      {
        ...named,
        verdict: has_key ? 'warning' : 'failed',
        found: 'env_key holds a key, where the name of a variable belongs: the client finds no key',
        remedy: 'write the key as api_key, in a file that only you can read; or put it into a variable and name that',
        ...fixToml(layers, path, { set, ...rest }),
      },
    ];
  }
  if (!read.some((text) => text.kind === 'reference')) return [];
  const names = read.flatMap((text) => ('name' in text ? [text.name] : []));
  return [
    {
      ...named,
      verdict: 'failed',
      found: `env_key has a $ before the name of a variable, which belongs to shells`,
      remedy: `write env_key = "${names[0]}"`,
      ...fixToml(layers, path, { set: valuesAt(path, names.length === 1 ? names[0]! : names) }),
    },
  ];
}

function merged(
  ...[one, other]: [ReturnType<typeof valuesAt>, ReturnType<typeof valuesAt>]
): ReturnType<typeof valuesAt> {
  const result: Record<string, ReturnType<typeof valuesAt>[string]> = { ...one };
  for (const [key, value] of Object.entries(other)) {
    const inner = result[key];
    result[key] = isTable(value) && isTable(inner) ? merged(inner as typeof one, value as typeof one) : value;
  }
  return result;
}

function examineApiKey({ desk, layers }: BuildCli, entry: Entry): Diagnosis[] {
  const { api_key } = entry.values;
  if (typeof api_key !== 'string' || api_key === '') return [];
  const path = entry.pathOf('api_key');
  const key = readKeyText(api_key);
  const named = {
    id: 'build_cli.api_key',
    title: `api_key of ${nameOf(entry)}`,
    where: whereIs(layers, path),
    verdict: 'failed',
  } as const;
  if (key.kind === 'padded') {
    const found = 'api_key has white space or the word Bearer before the key, and the client sends that as well';
    return [
      { ...named, found, remedy: 'write the key alone', ...fixToml(layers, path, { set: valuesAt(path, key.key) }) },
    ];
  }
  if (key.kind === 'reference') {
    const env_key = [...path.slice(0, -1), 'env_key'];
    const is_set = (desk.env[key.name] ?? '') !== '';
    const found = `api_key names the variable ${key.name}, and the client sends that name as the key`;
    const change = { set: valuesAt(env_key, key.name), drop: [path] };
    const fix = is_set || entry.values.env_key === undefined ? fixToml(layers, path, change) : {};
    return [{ ...named, found, remedy: `write env_key = "${key.name}" instead`, ...fix }];
  }
  if (key.kind === 'key') return [];
  const found = 'api_key holds no key, but what stands for one in examples';
  return [{ ...named, found, remedy: 'write the key into api_key, or take it away and name a variable as env_key' }];
}

/** Whether others can read the keys that are in the file. */
export function examineKeyRights({ desk, layers }: BuildCli): Diagnosis[] {
  if (layers.user === undefined || layers.secrets.length === 0) return [];
  return examineRights(desk, layers.user.path, {
    id: 'build_cli.rights',
    title: 'who can read the key of the build CLI',
  });
}

/** Variables that are set, and that the client passes over. */
export function ignoredVariables({ desk, names }: BuildCli, path: string): Pick<Diagnosis, 'details'> {
  const set = names.ignored_variables.filter((name) => (desk.env[name] ?? '') !== '');
  if (set.length === 0) return {};
  return { details: [`${set.join(' and ')} is set, which the client does not read: only ${path} counts`] };
}
