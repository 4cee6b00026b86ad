import { dirname, join } from 'node:path';
import { warning } from '../../../base/contract/checks.ts';
import { HELPER, isWindow, SIGN_IN, TIERS } from '../../client-files/clients.ts';
import { pathOfFile } from '../../client-files/names.ts';
import type { Desk, Diagnosis } from '../desk.ts';
import { readKeyText } from './credential-text.ts';
import { type Found, noAddress, noKey, placeOf, type Reading, rootOf, type Sources } from './sources.ts';

/** Files of the folder that the Messages client reads. */
export function folderFiles({ env, folder, names: { messages } }: Desk) {
  // A project has a folder of the same name as the one at home.
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

/** What the Messages client is told: by its shell, and by its settings, which win over that. */
export function readMessages(desk: Desk, sources: Sources): Reading {
  const { variable_prefix: prefix, feature_prefix: feature } = desk.names.messages;
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
  const told_by = sent ?? helper;
  const is_lent = is_of_folder && told_by !== undefined && told_by.found.source !== from.found.source;
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
      ...(is_lent ? [lentOut(sources, told_by, from)] : []),
      ...(signs_in || text !== undefined || helper !== undefined
        ? []
        : [without(sources, sent, `${prefix}_AUTH_TOKEN`)]),
      ...[address, token].flatMap((text) => (text === undefined ? [] : passedOver(sources, text))),
    ],
  };
}

/** Without the mark by which the client is told of a longer window. */
const plainModel = (text: string | undefined) => text?.replace(/\[1m\]$/i, '');

/** Whether a file of the folder says it: that may come from anybody. */
const isOfFolder = ({ source }: Found) => source.kind === 'project' || source.kind === 'local';

function sentToVendor(sources: Sources, { found, path }: Text, variable: string): Diagnosis {
  const remedy = 'appscli client messages --base-url https://gateway.example.com';
  const told = `${variable} is set nowhere, so the client sends the token to its vendor`;
  return { ...noKey(sources, placeOf(found.source, path), told, remedy), id: 'messages.address' };
}

function without(sources: Sources, sent: Text | undefined, variable: string): Diagnosis {
  const remedy =
    'make a token at the gateway and give it to the client: appscli client messages --token-stdin, or --key-helper where people sign in';
  if (sent !== undefined) {
    const found = `${sent.path.at(-1)} holds no key, but what stands for one in examples, or the name of a variable`;
    return noKey(sources, placeOf(sent.found.source, sent.path), found, remedy);
  }
  const found = `${variable} is set nowhere, and there is no key helper: the client asks people to sign in at its vendor, and sends the gateway that sign-in`;
  return noKey(sources, sources.paths.user, found, remedy);
}

/** A credential of the person goes to an address that whoever made the folder chose. */
function lentOut(sources: Sources, credential: Text, address: Text): Diagnosis {
  const found = `a file of this folder names the gateway, and the client sends it the credential of ${placeOf(credential.found.source, credential.path)}; it was not sent from here`;
  const remedy = `if you do not know that gateway, do not start the client here; else ask it with --base-url, or take ${address.path.at(-1)} out of that file`;
  return { ...noKey(sources, placeOf(address.found.source, address.path), found, remedy), verdict: 'warning' };
}

/** Other places that say something else of a variable, and do not count. */
function passedOver({ all }: Sources, { text, found, path }: Text): Diagnosis[] {
  const name = path.at(-1)!;
  const others = all.filter(({ values, kind, ...source }) => {
    const said = (values.env as Record<string, unknown> | undefined)?.[name];
    return source.path !== found.source.path && said !== undefined && said !== '' && String(said).trim() !== text;
  });
  return others.map((source) =>
    warning(
      `${name} is not used: ${placeOf(found.source, path)} says otherwise, and wins`,
      `take ${name} out of one of the two`,
      { id: 'messages.passed_over', title: 'a variable that does not count', where: placeOf(source, path) },
    ),
  );
}
