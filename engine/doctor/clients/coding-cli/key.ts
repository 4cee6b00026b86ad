import { isTable } from '../../../client-files/broken-file.ts';
import type { Diagnosis, HelperCommand } from '../../diagnosis.ts';
import { examineRights } from '../client-file.ts';
import { readKeyText, readVariableText } from '../credential-text.ts';
import { fixToml, valuesAt, whereIs } from '../toml-layers.ts';
import { examineAuth, fixAuth, keyInAuth } from './auth.ts';
import type { CodingCli } from './file.ts';
import type { Provider } from './provider.ts';

/** What the client would send as its key, and what is wrong with it. */
export interface KeyExamination {
  readonly token: string | undefined;
  readonly helper?: HelperCommand | undefined;
  readonly diagnoses: readonly Diagnosis[];
}

/** Looks at what gives the client its key, in the order in which it goes by it. */
export function examineKey(client: CodingCli, provider: Provider): KeyExamination {
  const { layers, names } = client;
  const { env_key, auth, experimental_bearer_token: literal, http_headers, env_http_headers } = provider.values;
  const flag = provider.values[names.auth_flag] === true || provider.values[names.auth_flag] === 'true';
  if (isTable(auth)) return fromCommand(client, provider, auth, flag);
  if (env_key !== undefined) return fromVariable(client, provider, flag);
  const named = { id: 'coding_cli.key', title: 'key of the coding CLI' };
  if (typeof literal === 'string' && literal !== '') {
    const where = whereIs(layers, provider.pathOf('experimental_bearer_token'));
    const rights =
      layers.user === undefined
        ? []
        : examineRights(client.desk, layers.user.path, {
            id: 'coding_cli.rights',
            title: 'who can read the key of the coding CLI',
          });
    return {
      token: literal,
      diagnoses: [{ ...named, where, verdict: 'ok', found: 'it is in the section of the provider' }, ...rights],
    };
  }
  if (flag) return fromFile(client);
  if ([http_headers, env_http_headers].some(hasKey)) {
    return { token: undefined, diagnoses: [{ ...named, verdict: 'ok', found: 'it is in headers of the provider' }] };
  }
  return withoutSource(client, provider);
}

function hasKey(headers: unknown): boolean {
  return isTable(headers) && Object.keys(headers).some((name) => /^(?:authorization|x-api-key|api-key)$/i.test(name));
}

/** Nothing says where the key is; most often it is in its file, and the flag was forgotten. */
function withoutSource(client: CodingCli, provider: Provider): KeyExamination {
  const { layers, names, auth_path } = client;
  const path = provider.pathOf(names.auth_flag);
  const named = {
    id: 'coding_cli.auth_flag',
    title: 'whether the key is used',
    where: whereIs(layers, path),
    verdict: 'failed',
  } as const;
  const key = keyInAuth(client);
  const literal = provider.values.api_key;
  if (typeof literal === 'string' && readKeyText(literal).kind === 'key')
    return literalKey(client, provider, 'api_key', literal);
  const found =
    key === undefined
      ? 'the section names neither a variable (env_key) nor the file with the key: the client sends no key'
      : `the key in ${auth_path} is not used, for ${names.auth_flag} is not true: the client sends no key`;
  const remedy = `write ${names.auth_flag} = true into the section of the provider`;
  if (key === undefined)
    return {
      token: undefined,
      diagnoses: [
        { ...named, found, remedy: `${remedy}, and the key into ${auth_path}: appscli client coding-cli does both` },
      ],
    };
  return {
    token: undefined,
    diagnoses: [{ ...named, found, remedy, ...fixToml(layers, path, { set: valuesAt(path, true) }) }],
  };
}

function fromFile(client: CodingCli): KeyExamination {
  const { desk, names } = client;
  const found = examineAuth(client);
  const preferred = (desk.env[names.key_variable] ?? '').trim();
  if (preferred === '' || preferred === found.token) return found;
  const diagnosis: Diagnosis = {
    id: 'coding_cli.key_variable',
    title: 'key of single runs',
    verdict: 'warning',
    where: names.key_variable,
    found: `${names.key_variable} is set: single runs send that, and not the key of the file`,
    remedy: `unset ${names.key_variable}, unless it is what single runs are meant to use`,
  };
  return { ...found, diagnoses: [...found.diagnoses, diagnosis] };
}

function fromCommand(
  client: CodingCli,
  provider: Provider,
  auth: Readonly<Record<string, unknown>>,
  flag: boolean,
): KeyExamination {
  const { layers, names } = client;
  const { command, args = [] } = auth;
  const path = provider.pathOf('auth');
  const named = { id: 'coding_cli.key', title: 'key of the coding CLI', where: whereIs(layers, path) };
  const others = [...(flag ? [names.auth_flag] : []), ...('env_key' in provider.values ? ['env_key'] : [])];
  if (others.length > 0) {
    const found = `the section names a command for the key and has ${others.join(' and ')} as well: the client does not start`;
    const fix = fixToml(layers, path, { drop: others.map((key) => provider.pathOf(key)) });
    return {
      token: undefined,
      diagnoses: [{ ...named, verdict: 'failed', found, remedy: `take ${others.join(' and ')} away`, ...fix }],
    };
  }
  if (
    typeof command !== 'string' ||
    command === '' ||
    !Array.isArray(args) ||
    !args.every((arg) => typeof arg === 'string')
  ) {
    const found = 'auth has no command and list of args';
    return {
      token: undefined,
      diagnoses: [{ ...named, verdict: 'failed', found, remedy: 'appscli client coding-cli --key-helper writes them' }],
    };
  }
  const helper = { command: { program: command, args }, where: named.where };
  return { token: undefined, helper, diagnoses: [{ ...named, verdict: 'ok', found: 'a command prints it' }] };
}

function fromVariable(client: CodingCli, provider: Provider, flag: boolean): KeyExamination {
  const { desk, layers } = client;
  const path = provider.pathOf('env_key');
  const given = provider.values.env_key;
  const named = {
    id: 'coding_cli.env_key',
    title: 'variable with the key',
    where: whereIs(layers, path),
    verdict: 'failed',
  } as const;
  const set = (name: string) => fixToml(layers, path, { set: valuesAt(path, name) });
  if (typeof given !== 'string') {
    const only = Array.isArray(given) && given.length === 1 && typeof given[0] === 'string' ? given[0] : undefined;
    const found = 'env_key is no text, and the client does not start';
    return {
      token: undefined,
      diagnoses: [{ ...named, found, remedy: 'name one variable, in quotes', ...(only && set(only)) }],
    };
  }
  const variable = readVariableText(given, desk.env);
  if (variable.kind === 'key') return literalKey(client, provider, 'env_key', given);
  if (variable.kind === 'reference') {
    const found =
      'env_key has a $ before the name of a variable, which belongs to shells: the client does not start a turn';
    return {
      token: undefined,
      diagnoses: [{ ...named, found, remedy: `write env_key = "${variable.name}"`, ...set(variable.name) }],
    };
  }
  const name = variable.kind === 'empty' ? '' : variable.name;
  const value = (desk.env[name] ?? '').trim();
  if (value !== '') return variableThatIsSet(client, name, value, flag);
  const is_in_file = flag && keyInAuth(client) !== undefined;
  const found =
    name === ''
      ? 'env_key is empty: the client does not start a turn'
      : `env_key names ${name}, which is not set here: the client does not start a turn`;
  const remedy =
    is_in_file || name === ''
      ? 'take env_key away: the key is in its file'
      : `set ${name} in the profile of your shell, and start the client from a new one`;
  return {
    token: undefined,
    diagnoses: [{ ...named, found, remedy, ...(is_in_file && fixToml(layers, path, { drop: [path] })) }],
  };
}

function variableThatIsSet(client: CodingCli, name: string, value: string, flag: boolean): KeyExamination {
  const named = { id: 'coding_cli.key', title: 'key of the coding CLI', where: name };
  const key = readKeyText(value);
  if (key.kind === 'padded') {
    const found = `${name} begins with the word Bearer, which the client adds itself`;
    return {
      token: key.key,
      diagnoses: [{ ...named, verdict: 'failed', found, remedy: `set ${name} to the key alone` }],
    };
  }
  if (key.kind !== 'key') {
    const found = `${name} holds no key, but what stands for one in examples`;
    return { token: undefined, diagnoses: [{ ...named, verdict: 'failed', found, remedy: `set ${name} to the key` }] };
  }
  const in_file = flag ? keyInAuth(client) : undefined;
  const details =
    in_file === undefined || in_file === key.key
      ? {}
      : { details: [`another key is in ${client.auth_path}, which is not read: env_key wins`] };
  return {
    token: key.key,
    diagnoses: [{ ...named, verdict: 'ok', found: `it is in the variable ${name}`, ...details }],
  };
}

/** A key in the section of the provider, where the client does not look for one: it belongs into its own file. */
function literalKey(client: CodingCli, provider: Provider, place: 'env_key' | 'api_key', text: string): KeyExamination {
  const { layers, names, auth, auth_path, broken_auth } = client;
  const path = provider.pathOf(place);
  const key = text.trim().replace(/^bearer\s+/i, '');
  const moved = fixToml(layers, path, { set: valuesAt(provider.pathOf(names.auth_flag), true), drop: [path] }).fixes;
  const is_free =
    broken_auth === undefined &&
    (auth === undefined || (keyInAuth(client) ?? key) === key) &&
    auth?.values.tokens == null;
  const write = fixAuth(client, { set: { [names.key_name]: key } }, [text, key]);
  const diagnosis: Diagnosis = {
    id: 'coding_cli.env_key',
    title: 'variable with the key',
    where: whereIs(layers, path),
    verdict: 'failed',
    found:
      place === 'env_key'
        ? 'env_key holds a key, where the name of a variable belongs: the client does not start a turn'
        : 'api_key is nothing the client knows: it sends no key',
    remedy: `put the key into ${auth_path} as ${names.key_name}, and write ${names.auth_flag} = true in place of ${place}`,
    ...(is_free && moved && { fixes: [write, ...moved] }),
  };
  return { token: undefined, diagnoses: [diagnosis] };
}
