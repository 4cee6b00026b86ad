import { failed } from '../../../base/contract/checks.ts';
import { printableWord } from '../../../base/kit/text/printable.ts';
import { listed } from '../../../base/kit/text/suggest.ts';
import { tablesIn } from '../../client-files/broken-file.ts';
import { type Credential, isWindow } from '../../client-files/clients.ts';
import type { Diagnosis, Workstation } from '../workstation.ts';
import { keyIn, readVariableText } from './credential-text.ts';
import {
  helperOf,
  noAddress,
  noKey,
  placeOf,
  type Reading,
  rootOf,
  type Sources,
  USUAL_WINDOW,
  windowOf,
} from './sources.ts';

/** Reads the coding CLI's configuration and its key file. */
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
  const { display_name, ...key } = { display_name: section.name, ...readKey(workstation, sources, alias, section) };
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
  /** The variable that should contain it and is not set. */
  readonly unset?: string;
}

/** The client's key, searched in the client's own order. */
function readKey(
  workstation: Workstation,
  sources: Sources,
  alias: string,
  section: Readonly<Record<string, unknown>>,
): Key {
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
