import { dirname, join } from 'node:path';
import { HELPER, isWindow, SIGN_IN, TIERS } from '../../client-files/clients.ts';
import { pathOfFile } from '../../client-files/names.ts';
import type { Diagnosis, Workstation } from '../workstation.ts';
import { readKeyText } from './credential-text.ts';
import { type Found, noAddress, noKey, placeOf, type Reading, rootOf, type Sources } from './sources.ts';

/** Project files that the Messages client reads. */
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

/** Without the suffix that selects a longer context window. */
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
  const remedy = `if you do not trust that gateway, do not start the client here; else query it with --base-url, or remove ${address.path.at(-1)} from that file`;
  return { ...noKey(sources, placeOf(address.found.source, address.path), found, remedy), verdict: 'warning' };
}
