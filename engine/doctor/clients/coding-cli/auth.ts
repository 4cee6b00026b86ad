import type { Values } from '../../../client-files/broken-file.ts';
import { mergeJson } from '../../../client-files/json-text.ts';
import { printableLine } from '../../../kit/text/printable.ts';
import type { Diagnosis, Fix } from '../../diagnosis.ts';
import { examineRights, lineInJson, positionOf } from '../client-file.ts';
import { isKeyAnywhere, readKeyText } from '../credential-text.ts';
import { fixToml, whereIs } from '../toml-layers.ts';
import type { CodingCli } from './file.ts';

/** What the file with the key gives the client, and what is wrong with it. */
export interface AuthExamination {
  readonly token: string | undefined;
  readonly diagnoses: readonly Diagnosis[];
}

const AS_KEY = 'apikey';
const STORE = 'cli_auth_credentials_store';

/** The key as the file has it, whatever else is wrong. */
export function keyInAuth({ auth, names }: CodingCli): string | undefined {
  const text = auth?.values[names.key_name];
  if (typeof text !== 'string') return undefined;
  const key = readKeyText(text);
  return key.kind === 'key' || key.kind === 'padded' ? key.key : undefined;
}

/** A change of the file with the key, which nobody else may read. */
export function fixAuth(
  { auth_path, auth }: CodingCli,
  { set = {}, drop = [] }: { readonly set?: Values; readonly drop?: readonly string[][] },
  hides: readonly string[],
): Fix {
  const astray = Object.values(auth?.values ?? {}).filter((text) => typeof text === 'string' && isKeyAnywhere(text));
  const change = (before: string | undefined) => mergeJson(before ?? '', set, drop);
  return { path: auth_path, change, secret: true, hides: [...hides, ...(astray as string[])] };
}

/** Looks at the file with the key, which is where a provider with the flag takes it from. */
export function examineAuth(client: CodingCli): AuthExamination {
  const { desk, names, auth, auth_path, layers, broken_auth } = client;
  if (broken_auth !== undefined) return { token: undefined, diagnoses: [broken_auth] };
  const store = layers.values[STORE];
  if (store === 'keyring' || store === 'ephemeral') return otherStore(client, store);
  const rights =
    auth === undefined
      ? []
      : examineRights(desk, auth_path, { id: 'coding_cli.rights', title: 'who can read the key of the coding CLI' });
  const named = { id: 'coding_cli.key', title: 'key of the coding CLI', where: placeOf(client, names.key_name) };
  const text = auth?.values[names.key_name];
  const key = typeof text === 'string' ? readKeyText(text) : undefined;
  const hides = typeof text === 'string' ? [text, text.trim()] : [];
  if (key === undefined || key.kind === 'empty') return { token: undefined, diagnoses: [...noKey(client), ...rights] };
  if (key.kind === 'padded') {
    const found = `${names.key_name} has white space or the word Bearer beside the key, and the client sends that as well`;
    const fixes = [fixAuth(client, { set: { [names.key_name]: key.key } }, hides)];
    return {
      token: key.key,
      diagnoses: [{ ...named, verdict: 'failed', found, remedy: 'write the key alone', fixes }, ...rights],
    };
  }
  if (key.kind !== 'key') {
    const found = `${names.key_name} holds no key, but ${key.kind === 'reference' ? 'the name of a variable, which the client does not look up' : 'what stands for one in examples'}`;
    const remedy = 'appscli client coding-cli asks for the key and writes it';
    return { token: undefined, diagnoses: [{ ...named, verdict: 'failed', found, remedy }, ...rights] };
  }
  const ok: Diagnosis = { ...named, verdict: 'ok', found: `it is in the file, as ${names.key_name}` };
  const mode = examineMode(client, hides);
  return {
    token: mode[0]?.verdict === 'failed' ? undefined : key.key,
    diagnoses: [...(mode.length > 0 ? mode : [ok]), ...rights],
  };
}

function placeOf({ auth, auth_path }: CodingCli, member: string): string {
  return positionOf(auth_path, auth && lineInJson(auth.text, [member]));
}

/** How the client was told to sign in, where that is not with the key. */
function examineMode(client: CodingCli, hides: readonly string[]): Diagnosis[] {
  const { auth, names } = client;
  const { auth_mode, tokens } = auth!.values;
  const is_signed_in = typeof tokens === 'object' && tokens !== null;
  const secrets = [...hides, ...Object.values(is_signed_in ? tokens : {}).filter((text) => typeof text === 'string')];
  const remedy = `set auth_mode to "${AS_KEY}"; the sign-in stays where it is`;
  const fixes = [fixAuth(client, { set: { auth_mode: AS_KEY } }, secrets)];
  const named = { id: 'coding_cli.sign_in', title: 'sign-in of the coding CLI', where: placeOf(client, 'auth_mode') };
  if (auth_mode !== undefined && auth_mode !== null && auth_mode !== AS_KEY) {
    const sends = is_signed_in
      ? 'sends the gateway the sign-in to its vendor, which it should not see'
      : 'finds no sign-in, and sends nothing';
    return [
      {
        ...named,
        verdict: 'failed',
        found: `auth_mode says that ${names.key_name} is not used: the client ${sends}`,
        remedy,
        fixes,
      },
    ];
  }
  if (!is_signed_in || auth_mode === AS_KEY) return [];
  const found =
    'a sign-in to its vendor is beside the key, and nothing says which of both is meant; that depends on the version of the client';
  return [{ ...named, verdict: 'warning', found, remedy, fixes }];
}

function otherStore(client: CodingCli, store: string): AuthExamination {
  const { layers, auth_path } = client;
  const named = { id: 'coding_cli.key', title: 'key of the coding CLI', where: whereIs(layers, [STORE]) };
  if (keyInAuth(client) === undefined && store === 'keyring') {
    const found = 'it is in the keyring of this machine, where it is not looked for here';
    return { token: undefined, diagnoses: [{ ...named, verdict: 'skipped', found }] };
  }
  const found = `${STORE} is "${store}", so the key in ${auth_path} is not read`;
  const remedy = `take ${STORE} away, or set it to "file"`;
  const fix = fixToml(layers, [STORE], { set: { [STORE]: 'file' } });
  return { token: undefined, diagnoses: [{ ...named, verdict: 'failed', found, remedy, ...fix }] };
}

function noKey(client: CodingCli): Diagnosis[] {
  const { desk, names, auth, auth_path } = client;
  const named = { id: 'coding_cli.key', title: 'key of the coding CLI', where: placeOf(client, names.key_name) };
  const remedy = 'appscli client coding-cli --base-url https://gateway.example.com asks for the key and writes it';
  const ignored = [names.key_name, ...names.ignored_variables].filter((name) => (desk.env[name] ?? '') !== '');
  const told =
    ignored.length === 0
      ? {}
      : {
          details: [`${ignored.join(' and ')} is set as a variable, which the client does not read for this provider`],
        };
  const { tokens } = auth?.values ?? {};
  if (typeof tokens === 'object' && tokens !== null) {
    const found = `${names.key_name} is missing, and the client sends the gateway the sign-in to its vendor instead, which it should not see`;
    return [{ ...named, verdict: 'failed', found, remedy, ...told }];
  }
  const others = Object.entries(auth?.values ?? {}).filter(([name]) => name !== names.key_name && name !== 'tokens');
  const wrong_name = others.filter(
    ([name, value]) => /key|token/i.test(name) && typeof value === 'string' && readKeyText(value).kind === 'key',
  );
  if (wrong_name.length === 1) {
    const [name, value] = wrong_name[0]! as [string, string];
    const found = `the key is called ${printableLine(name)} there, and the client looks for ${names.key_name}`;
    const fixes = [fixAuth(client, { set: { [names.key_name]: value }, drop: [[name]] }, [value])];
    return [
      {
        ...named,
        where: placeOf(client, name),
        verdict: 'failed',
        found,
        remedy: `call it ${names.key_name}`,
        fixes,
        ...told,
      },
    ];
  }
  const found =
    auth === undefined
      ? `there is no ${auth_path}, and so no key: the client sends none`
      : `${names.key_name} is missing: the client sends no key`;
  return [{ ...named, verdict: 'failed', found, remedy, ...told }];
}
