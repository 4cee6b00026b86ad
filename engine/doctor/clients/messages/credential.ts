import { basename, dirname, join } from 'node:path';
import { isTable } from '../../../client-files/broken-file.ts';
import { parseObject } from '../../../client-files/json-text.ts';
import { callsHelper } from '../../../client-files/key-helper.ts';
import type { Desk } from '../../desk.ts';
import type { Connection, Diagnosis } from '../../diagnosis.ts';
import { judgeAddress } from './address.ts';
import {
  emptied,
  type Found,
  fixIn,
  howToChange,
  isSet,
  placeOf,
  type Settings,
  userSettingsPath,
} from './settings.ts';

const NAMED = { id: 'messages.key', title: 'key' };

/** What the client shows who it is with, and what is wrong with that. */
export interface ExaminedCredential {
  /** What it would send, where that is known without running anything. */
  readonly token: string | undefined;
  readonly helper: Connection['helper'];
  /** Whether there is anything at all that it would send as a credential for a gateway. */
  readonly is_set: boolean;
  readonly diagnoses: readonly Diagnosis[];
}

/** Setting that names the command of a key helper. */
const HELPER = 'apiKeyHelper';

/** Looks at everything the client may take a credential from. */
export function examineCredential(
  desk: Desk,
  settings: Settings,
  given: { readonly root_url: string | undefined; readonly address: Found | undefined; readonly signs_in: boolean },
): ExaminedCredential {
  const { root_url, address, signs_in } = given;
  const { variable_prefix: prefix, feature_prefix: feature } = desk.names.messages;
  const token = settings.variable(`${prefix}_AUTH_TOKEN`);
  const key = settings.variable(`${prefix}_API_KEY`);
  const helper = settings.setting(HELPER);
  const headers = settings.variable(`${prefix}_CUSTOM_HEADERS`);
  const header = headerOf(headers);
  const session = settings.variable(`${feature}_OAUTH_TOKEN`);
  const sent = isSet(token) ? token : isSet(key) ? key : undefined;
  const is_set = sent !== undefined || helper !== undefined || header !== undefined;
  const empty = emptied(settings.everywhere(`${prefix}_AUTH_TOKEN`), NAMED);
  const diagnoses = [
    ...(sent === undefined ? [] : judgeText(sent)),
    ...twice(token, key, helper),
    ...empty,
    ...(helper === undefined || root_url === undefined ? [] : judgeHelper(helper, root_url)),
    ...(root_url === undefined || is_set || signs_in || empty.length > 0
      ? []
      : [nothing(desk, session, `${prefix}_AUTH_TOKEN`)]),
  ];
  const told_by = sent ?? helper ?? (header === undefined ? undefined : headers);
  if (address !== undefined && told_by !== undefined && isOfFolder(address) && told_by.source !== address.source) {
    return { token: undefined, helper: undefined, is_set, diagnoses: [...diagnoses, lentOut(told_by, address)] };
  }
  const text = (sent === undefined ? header : withoutScheme(sent.value))?.trim();
  return { token: text, helper: sent === undefined ? helperCommand(helper) : undefined, is_set, diagnoses };
}

/** Whether a file of the folder says it: that may come from anybody. */
export const isOfFolder = ({ source }: Found) => source.kind === 'project' || source.kind === 'local';

/** A credential of the person goes to an address that whoever made the folder chose. */
function lentOut(credential: Found, address: Found): Diagnosis {
  return {
    ...NAMED,
    verdict: 'warning',
    where: address.where,
    found: `a file of this folder names the gateway, and the client sends it the credential of ${credential.where}; it was not sent from here`,
    remedy: `if you do not know that gateway, do not start the client here; else ask it with --base-url, or take ${address.name} out of that file`,
  };
}

/** A token in a header that the person wrote. The client sends its own instead, if it has one. */
function headerOf(headers: Found | undefined): string | undefined {
  return /^authorization:\s*bearer\s+(\S+)\s*$/im.exec(headers?.value ?? '')?.[1];
}

const withoutScheme = (text: string) => text.trim().replace(/^bearer\s+/i, '');

/** What is wrong with a token as a text. */
function judgeText(sent: Found): Diagnosis[] {
  const given = sent.value.trim();
  const wrong = (found: string, remedy: string, more: Pick<Diagnosis, 'fixes'> = {}): Diagnosis[] => [
    { ...NAMED, verdict: 'failed', where: sent.where, found, remedy, ...more },
  ];
  if (/^<.*>$/.test(given))
    return wrong(`it holds the placeholder of an example`, howToChange(sent, 'a token of the gateway'));
  if (/^\$(?:\w+|\{[^}]*\})$|^%\w+%$/.test(given) && sent.source.kind !== 'shell') {
    const remedy = 'set it in your shell instead, or use a key helper: appscli client messages --key-helper';
    return wrong('it names another variable, which the client does not look up: it sends that name as the key', remedy);
  }
  if (/^bearer\s/i.test(given) && sent.name.endsWith('_AUTH_TOKEN')) {
    const fix = fixIn(sent.source, { values: { env: { [sent.name]: withoutScheme(given) } } });
    const remedy = howToChange(sent, 'the token alone');
    return wrong('it begins with "Bearer", which the client adds itself', remedy, fix);
  }
  if (/\s/.test(given)) return wrong('it holds a space or a line break', howToChange(sent, 'the token alone'));
  if (!/^[\x21-\x7e]+$/.test(given))
    return wrong('it holds a character that no HTTP header can carry', howToChange(sent, 'the token alone'));
  return [];
}

/** Credentials that are sent beside each other. */
function twice(token: Found | undefined, key: Found | undefined, helper: Found | undefined): Diagnosis[] {
  const warn = (found: string, where: string, remedy: string, more: Pick<Diagnosis, 'fixes'> = {}): Diagnosis => ({
    ...NAMED,
    verdict: 'warning',
    where,
    found,
    remedy,
    ...more,
  });
  const result: Diagnosis[] = [];
  if (isSet(token) && isSet(key)) {
    const found = `${key.name} is set beside ${token.name}: both are sent, and which of them counts is up to the gateway`;
    result.push(warn(found, key.where, howToChange(key), fixIn(key.source, { drops: [['env', key.name]] })));
  }
  const other = [token, key].find(isSet);
  if (helper !== undefined && other !== undefined) {
    const found = `${other.name} is set beside the key helper of ${helper.where}: both are sent, and which of them counts is up to the gateway`;
    const fix = other === key ? fixIn(key!.source, { drops: [['env', key!.name]] }) : {};
    result.push(warn(found, other.where, `keep one of the two: ${howToChange(other)}`, fix));
  }
  return result;
}

function helperCommand(helper: Found | undefined): Connection['helper'] {
  // A project may come from anybody: the client asks its user before it runs what such a file names.
  if (helper === undefined || isOfFolder(helper)) return undefined;
  return { command: { line: helper.value }, where: helper.where };
}

function judgeHelper(helper: Found, root_url: string): Diagnosis[] {
  const named = { id: 'messages.key_helper', title: 'key helper', where: helper.where };
  const asks = /\btoken["']?\s+["']?--base-url["']?\s+["']?([^\s"']+)/.exec(helper.value)?.[1];
  if (asks !== undefined && !callsHelper(helper.value, root_url)) {
    const found = `it asks for a token of ${asks}, but the client goes to ${root_url}`;
    const remedy = `appscli client messages --key-helper --base-url ${root_url}`;
    return [{ ...named, verdict: 'failed', found, remedy }];
  }
  if (helperCommand(helper) !== undefined) return [];
  const found = 'not run here: it is named by a file of this folder, which may come from anybody';
  return [{ ...named, verdict: 'skipped', found }];
}

/** An address, and nothing to show there. */
function nothing(desk: Desk, session: Found | undefined, variable: string): Diagnosis {
  const remedy =
    'make a token at the gateway and give it to the client: appscli client messages --token-stdin, or --key-helper where people sign in';
  const failed = (found: string, where?: string): Diagnosis => ({
    ...NAMED,
    verdict: 'failed',
    ...(where !== undefined && { where }),
    found,
    remedy,
  });
  if (isSet(session))
    return failed('the client has no token for the gateway, and sends it this one of its vendor', session.where);
  const held = vendorSession(desk);
  if (held !== undefined)
    return failed('the client has no token for the gateway, and sends it the sign-in of its vendor', held);
  const key = vendorKey(desk);
  if (key !== undefined)
    return failed('the client has no token for the gateway, and sends it the key of its vendor', key);
  return failed(
    `${variable} is set nowhere, and there is no key helper: the client asks people to sign in at its vendor`,
  );
}

/** The file with a sign-in at the vendor of the client; on macOS the keychain has it, where nobody can look. */
function vendorSession(desk: Desk): string | undefined {
  const path = join(dirname(userSettingsPath(desk)), '.credentials.json');
  const values = Object.values(readObject(desk, path));
  return values.some((value) => isTable(value) && typeof value.accessToken === 'string') ? path : undefined;
}

/** The file with a key that the vendor made for the client: beside its folder, or in one that a variable names. */
function vendorKey(desk: Desk): string | undefined {
  const folder = dirname(userSettingsPath(desk));
  const name = `${basename(dirname(desk.names.messages.settings_file))}.json`;
  return [join(folder, name), join(dirname(folder), name)].find(
    (path) => typeof readObject(desk, path).primaryApiKey === 'string',
  );
}

/** What cannot be read the client has nothing from either. */
function readObject(desk: Desk, path: string): Readonly<Record<string, unknown>> {
  try {
    return parseObject(desk.read(path) ?? '{}');
  } catch {
    return {};
  }
}

/** Settings that have the client sign in at a gateway by itself. */
const SIGN_IN = { method: 'forceLoginMethod', address: 'forceLoginGatewayUrl' };

/** How the client is told to sign in by itself, and what keeps it from that. */
export function examineSignInSettings(
  settings: Settings,
  { address, token }: { readonly address: Found | undefined; readonly token: Found | undefined },
): { readonly root_url: string | undefined; readonly diagnoses: readonly Diagnosis[] } {
  const gateway = settings.setting(SIGN_IN.address);
  const method = settings.setting(SIGN_IN.method);
  if (gateway === undefined || method?.value !== 'gateway') return { root_url: undefined, diagnoses: [] };
  const named = { id: 'messages.sign_in', title: 'sign-in of the client' };
  const judged = judgeAddress(gateway, { id: named.id, title: named.title }, (value) => ({ [SIGN_IN.address]: value }));
  const { root_url } = judged;
  const problems = judged.problem === undefined ? [] : [judged.problem];
  const is_overruled = isSet(address) && isSet(token);
  const is_same = isSet(address) && address.value.trim().replace(/\/+$/, '') === root_url;
  const beside = [address, token].filter(isSet).map(
    (found): Diagnosis => ({
      ...named,
      // With both of them it works, with a token in place of a sign-in.
      verdict: is_overruled ? 'warning' : 'failed',
      where: found.where,
      found: `${found.name} is set, so the client does not sign in as ${placeOf(gateway.source, [SIGN_IN.address])} says`,
      remedy: `${howToChange(found)}; or take ${SIGN_IN.method} and ${SIGN_IN.address} out, if a token is to be used`,
      ...(is_same && !is_overruled && fixIn(found.source, { drops: [['env', found.name]] })),
    }),
  );
  return { root_url, diagnoses: [...problems, ...beside] };
}
