import { isTable } from '../../client-files/broken-file.ts';
import { lineInToml } from '../../client-files/toml-lines.ts';
import type { Desk } from '../desk.ts';
import type { Connection, Diagnosis, Examination } from '../diagnosis.ts';
import { positionOf } from './client-file.ts';
import { type CodingCli, openCodingCli } from './coding-cli/file.ts';
import { examineKey, type KeyExamination } from './coding-cli/key.ts';
import { examineCatalogue, examineLimits, fixWindow } from './coding-cli/limits.ts';
import { examineChoice, examineProvider, type Provider } from './coding-cli/provider.ts';
import { examineFolder } from './folder.ts';
import { fixToml, whereIs } from './toml-layers.ts';
import { judgeV1Address } from './v1-address.ts';

/** What is wrong with the files and variables of the coding CLI. Asks nobody. */
export function examineCodingCli(desk: Desk): Examination {
  const cli = openCodingCli(desk);
  const { layers, names } = cli;
  const client = 'coding-cli';
  const is_there =
    layers.user !== undefined ||
    layers.broken.length > 0 ||
    cli.auth !== undefined ||
    cli.broken_auth !== undefined ||
    desk.find(names.program) !== undefined;
  if (!is_there) return { client, is_there, diagnoses: [], connection: undefined };
  const diagnoses = [
    ...layers.broken,
    ...examineFolder(cli, { id: 'coding_cli.folder', title: 'folder of the coding CLI' }),
    ...layers.mended,
  ];
  if (layers.broken.some(({ where = '' }) => where.startsWith(layers.user_path))) {
    return { client, is_there, diagnoses, connection: undefined };
  }
  if (!usesGateway(cli)) return { client, is_there, diagnoses: [...diagnoses, notSetUp(cli)], connection: undefined };
  const { provider, diagnoses: of_choice } = examineChoice(cli);
  const key = provider === undefined ? undefined : examineKey(cli, provider);
  const of_provider = provider === undefined ? [] : examineProvider(cli, provider);
  return {
    client,
    is_there,
    diagnoses: [
      ...diagnoses,
      ...of_choice,
      ...of_provider,
      ...(key?.diagnoses ?? []),
      ...(provider === undefined ? [] : [...examineModel(cli), ...examineLimits(cli), ...examineCatalogue(cli)]),
      ...examineMeddling(cli),
    ],
    connection: provider && connectionOf(cli, provider, key),
  };
}

/** Whether anything says that the client should ask another server than its vendor's. */
function usesGateway({ layers, sections, names }: CodingCli): boolean {
  const { model_provider, [names.base_url_key]: own_address } = layers.values;
  const is_named = model_provider !== undefined && !names.built_in_providers.includes(String(model_provider));
  return is_named || own_address !== undefined || sections.some(([, { base_url }]) => base_url !== undefined);
}

function notSetUp({ desk, layers, names }: CodingCli): Diagnosis {
  const named = { id: 'coding_cli.gateway', title: 'gateway of the coding CLI', where: layers.user_path };
  const remedy = 'appscli client coding-cli --base-url https://gateway.example.com --model MODEL sets it up';
  if (isTable(layers.values.model)) {
    const found = 'this is written like the file of the build CLI, and the coding CLI does not start with it';
    return { ...named, verdict: 'failed', found, remedy };
  }
  const ignored = names.ignored_variables.filter((name) => (desk.env[name] ?? '') !== '');
  const details =
    ignored.length === 0
      ? {}
      : {
          details: [`${ignored.join(' and ')} is set, which the client does not read: only ${layers.user_path} counts`],
        };
  const found = 'no provider with a base_url is in its file: it asks its vendor, and no gateway';
  return { ...named, verdict: 'skipped', found, remedy, ...details };
}

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max', 'ultra'];

function examineModel({ layers }: CodingCli): Diagnosis[] {
  const { model, model_reasoning_effort: effort } = layers.values;
  const diagnoses: Diagnosis[] = [];
  if (typeof model !== 'string' || model === '') {
    const found = 'no model is named, and the client asks the gateway for one of its vendor, which it need not have';
    const remedy = 'set model, at the top of the file, to one that the gateway has';
    diagnoses.push({
      id: 'coding_cli.model',
      title: 'model',
      verdict: 'failed',
      where: whereIs(layers, ['model']),
      found,
      remedy,
    });
  }
  if (effort !== undefined && !EFFORTS.includes(String(effort))) {
    const path = ['model_reasoning_effort'];
    const found = 'model_reasoning_effort is none that models know, and the client passes it on as it is';
    const fix = fixToml(layers, path, { set: { model_reasoning_effort: 'none' } });
    diagnoses.push({
      id: 'coding_cli.effort',
      title: 'reasoning effort',
      verdict: 'warning',
      where: whereIs(layers, path),
      found,
      remedy: `write one of ${EFFORTS.slice(0, 6).join(', ')}`,
      ...fix,
    });
  }
  return diagnoses;
}

/** What decides over the model and the provider besides. */
function examineMeddling({ layers, project }: CodingCli): Diagnosis[] {
  const { profile, forced_login_method: forced } = layers.values;
  const diagnoses: Diagnosis[] = [];
  if (profile !== undefined) {
    const found =
      'profile is set: newer versions of the client do not start with it, older ones may take another model and provider from it';
    diagnoses.push({
      id: 'coding_cli.profile',
      title: 'profile',
      verdict: 'failed',
      where: whereIs(layers, ['profile']),
      found,
      remedy: 'take profile away, and name a profile with --profile where you start the client',
    });
  }
  if (forced !== undefined && forced !== 'api') {
    const found = 'forced_login_method allows no key: the client refuses to start, and removes the key from its file';
    diagnoses.push({
      id: 'coding_cli.forced_sign_in',
      title: 'way to sign in',
      verdict: 'failed',
      where: whereIs(layers, ['forced_login_method']),
      found,
      remedy: 'take forced_login_method away, or set it to "api"',
    });
  }
  const own = ['model', 'model_context_window', 'model_auto_compact_token_limit'].filter(
    (key) => project?.values[key] !== undefined,
  );
  if (project !== undefined && own.length > 0) {
    const where = positionOf(project.path, lineInToml(project.text, [own[0]!]));
    const found = `the file of this folder sets ${own.join(' and ')}, which counts here, where the folder is trusted`;
    diagnoses.push({ id: 'coding_cli.project', title: 'file of this folder', verdict: 'ok', where, found });
  }
  return diagnoses;
}

function connectionOf(
  { layers }: CodingCli,
  provider: Provider,
  key: KeyExamination | undefined,
): Connection | undefined {
  const { root_url } = judgeV1Address(provider.values.base_url);
  if (root_url === undefined) return undefined;
  const { model, model_context_window: window } = layers.values;
  return {
    client: 'coding-cli',
    root_url,
    token: key?.token,
    ...(key?.helper && { helper: key.helper }),
    model: typeof model === 'string' ? model : undefined,
    context_window: typeof window === 'number' ? window : undefined,
    fixWindow: (tokens) => fixWindow(layers, tokens),
  };
}
