import type { Desk } from '../desk.ts';
import type { Connection, Diagnosis, Examination } from '../diagnosis.ts';
import { examineDefault, examineRoles } from './build-cli/default.ts';
import { examineEntry } from './build-cli/entry.ts';
import { type BuildCli, type Entry, openBuildCli } from './build-cli/file.ts';
import {
  examineKey,
  examineKeyRights,
  examineKeyTexts,
  ignoredVariables,
  type KeyExamination,
} from './build-cli/key.ts';
import { examineFolder } from './folder.ts';
import { fixToml, tablesIn, valuesAt } from './toml-layers.ts';
import { judgeV1Address } from './v1-address.ts';

/** What is wrong with the files and variables of the build CLI. Asks nobody. */
export function examineBuildCli(desk: Desk): Examination {
  const client = openBuildCli(desk);
  const { layers, names } = client;
  const is_there =
    layers.user !== undefined ||
    layers.broken.length > 0 ||
    client.has_session ||
    desk.find(names.program) !== undefined;
  if (!is_there) return { client: 'build-cli', is_there, diagnoses: [], connection: undefined };
  const diagnoses = [
    ...layers.broken,
    ...examineFolder(client, { id: 'build_cli.folder', title: 'folder of the build CLI' }),
    ...layers.mended,
  ];
  const isBroken = layers.broken.some(({ where = '' }) => where.startsWith(layers.user_path));
  if (isBroken) return { client: 'build-cli', is_there, diagnoses, connection: undefined };
  if (!usesGateway(client)) {
    return { client: 'build-cli', is_there, diagnoses: [...diagnoses, notSetUp(client)], connection: undefined };
  }
  const { entry, diagnosis } = examineDefault(client);
  const key = entry === undefined ? undefined : examineKey(client, entry);
  const others = client.entries.filter((each) => each !== entry && each.values.base_url !== undefined);
  return {
    client: 'build-cli',
    is_there,
    diagnoses: [
      ...diagnoses,
      diagnosis,
      ...(entry === undefined ? [] : examineEntry(client, entry, true)),
      ...(key?.diagnoses ?? []),
      ...(entry?.values.base_url === undefined ? [] : examineRoles(client, entry)),
      ...others.flatMap((each) => [...examineEntry(client, each, false), ...examineKeyTexts(client, each)]),
      ...examineKeyRights(client),
      ...examineOverlays(client),
    ],
    connection: entry && connectionOf(client, entry, key),
  };
}

/** Whether anything says that the client should ask another server than its vendor's. */
function usesGateway({ layers, entries, has_list }: BuildCli): boolean {
  return has_list || layers.mended.length > 0 || entries.some(({ values }) => values.base_url !== undefined);
}

function notSetUp(client: BuildCli): Diagnosis {
  const { layers } = client;
  const named = { id: 'build_cli.gateway', title: 'gateway of the build CLI', where: layers.user_path };
  const remedy = 'appscli client build-cli --base-url https://gateway.example.com --model MODEL sets it up';
  if (typeof layers.values.model_provider === 'string' && tablesIn(layers.values.model_providers).length > 0) {
    const found = 'this is written like the file of the coding CLI, which the build CLI does not understand';
    return { ...named, verdict: 'failed', found, remedy };
  }
  return {
    ...named,
    verdict: 'skipped',
    found: 'no model with a base_url is in its file: it asks its vendor, and no gateway',
    remedy,
    ...ignoredVariables(client, layers.user_path),
  };
}

function examineOverlays({ desk, names }: BuildCli): Diagnosis[] {
  return names.overlay_variables
    .filter((name) => (desk.env[name] ?? '') !== '')
    .map((name) => ({
      id: 'build_cli.overlay',
      title: 'configuration in variables',
      verdict: 'warning',
      where: name,
      found: `${name} is set: what it says wins over the files, and is not looked at here`,
      remedy: `unset ${name}, and look again`,
    }));
}

function connectionOf({ layers }: BuildCli, entry: Entry, key: KeyExamination | undefined): Connection | undefined {
  const { base_url, model, context_window } = entry.values;
  const { root_url } = judgeV1Address(base_url);
  if (root_url === undefined) return undefined;
  const path = ['model', entry.alias, 'context_window'];
  return {
    client: 'build-cli',
    root_url,
    token: key?.token,
    ...(key?.helper && { helper: key.helper }),
    model: typeof model === 'string' ? model : entry.alias,
    context_window: typeof context_window === 'number' ? context_window : undefined,
    fixWindow: (tokens) => fixToml(layers, path, { set: valuesAt(path, tokens) }),
  };
}
