import { failed } from '../../../base/contract/checks.ts';
import type { Fields } from '../../../base/kit/json/fields.ts';
import { printableLine } from '../../../base/kit/text/printable.ts';
import { listed } from '../../../base/kit/text/suggest.ts';
import { isTable, tablesIn, valueAt } from '../../client-files/broken-file.ts';
import { type ClientSpec, type Credential, isWindow } from '../../client-files/clients.ts';
import { pathOfFile } from '../../client-files/names.ts';
import type { Diagnosis, Workstation } from '../workstation.ts';
import { keyIn, readKeyText, readVariableText } from './credential-text.ts';
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

/** Reads the build CLI's configuration. */
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
        const { credential, fault, ...key } = readKey(workstation, sources, name, values);
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

interface Key extends Pick<Reading, 'token' | 'helper'> {
  readonly credential?: Credential | undefined;
  readonly fault?: Diagnosis;
}

/** The client's key, searched in the client's own order. */
function readKey(workstation: Workstation, sources: Sources, alias: string, entry: Fields): Key {
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
