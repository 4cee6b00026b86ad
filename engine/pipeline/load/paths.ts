import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve, sep } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import type { StageNotCreated } from '../../base/contract/start-error.ts';
import { didYouMean } from '../../base/kit/text/suggest.ts';
import { createFindings, type Findings } from '../../base/source/findings.ts';
import { quote } from '../../base/source/node.ts';
import { filesAt, namesBeside } from '../../base/source/read-text.ts';
import { readSource } from '../../base/source/source.ts';
import type { PipelineSpec } from '../../base/source/spec.ts';
import { readFragment } from './fragments.ts';
import { type LoadedGateway, type LoadOptions, loadInto } from './index.ts';
import { compilePipeline, pipelineFiles, pipelinesOf, SHIPPED_PIPELINES } from './pipelines.ts';
import { readPolicy } from './policies.ts';
import { loadStages } from './stage-modules.ts';
import {
  checkAgainstConfig,
  checkAgainstPipeline,
  gatewayFileFor,
  isTestFile,
  readTestFile,
} from './tests/test-file.ts';

/** The result of a check of files and directories. */
export type CheckedPaths = Awaited<ReturnType<typeof loadPaths>>;

type Kind = 'gateway' | 'pipeline' | 'fragment' | 'policy' | 'test';

/** Top-level keys that identify the kind of a file. */
const KIND_KEYS: readonly (readonly [Kind, RegExp])[] = [
  ['gateway', topKey('server|upstreams|routing|token_groups|spend_limits')],
  ['pipeline', topKey('pipeline|extends|match|on_error|finally')],
  ['fragment', topKey('fragment|parameters')],
  ['policy', topKey('policy')],
];
const CASES = topKey('cases');

/** Matches a key at the beginning of a line, or of a JSON file. */
function topKey(names: string): RegExp {
  return new RegExp(`^(?:\\uFEFF)?(?:\\{\\s*)?["']?(?:${names})["']?\\s*:`, 'm');
}

function textOf(file: string): string {
  try {
    return statSync(file).isFile() ? readFileSync(file, 'utf8') : '';
  } catch {
    // Reading it as configuration reports why.
    return '';
  }
}

/** The kind of a file, by its name or by a regular expression over its text: invalid YAML has a kind, too. */
function kindOf(file: string): Kind | undefined {
  if (/^gateway\.ya?ml$/.test(basename(file))) return 'gateway';
  if (isTestFile(file)) return 'test';
  const text = textOf(file);
  if (CASES.test(text)) return 'test';
  // The first key decides: one of another kind further down is a mistake.
  const offsets = KIND_KEYS.map(([kind, key]) => [kind, text.search(key)] as const).filter(([, offset]) => offset >= 0);
  return offsets.toSorted((a, b) => a[1] - b[1])[0]?.[0];
}

const NO_CONFIG = 'name the configuration with --config, or create one: appscli init';

type SoundGateway = LoadedGateway & { readonly config: GatewayConfig };

export interface PathOptions extends LoadOptions {
  /** Creates and closes the stages of a configuration. @returns the first that cannot be created */
  readonly tryStages?: (gateway: SoundGateway) => Promise<StageNotCreated | undefined>;
  /** A gateway.yaml under any name. */
  readonly config?: string;
}

/** Checks each gateway.yaml with its pipelines, policies and tests, then what belongs to none. Ignores other YAML in directories. */
export async function loadPaths(paths: readonly string[], options: PathOptions) {
  const findings = createFindings();
  const { env, environment, shipped_pipelines: shipped = SHIPPED_PIPELINES } = options;
  const config_file = options.config === undefined ? undefined : resolve(options.config);
  const wanted = new Map<string, Kind | undefined>(config_file === undefined ? [] : [[config_file, 'gateway']]);
  for (const path of paths.map((each) => resolve(each))) {
    const before = findings.errors();
    const found = filesAt(path, findings).map((file) => [file, kindOf(file)] as const);
    const is_file = found.length === 1 && found[0]?.[0] === path;
    const telling = found.filter(([, kind]) => kind !== undefined);
    if (telling.length === 0 && findings.errors() === before) reportNothing(path, is_file, findings);
    for (const [file, kind] of telling) if (!wanted.has(file)) wanted.set(file, kind);
  }
  const ofKind = (kind: Kind) => [...wanted].flatMap(([file, its]) => (its === kind ? file : []));
  const unreadOfKind = (kind: Kind) => ofKind(kind).filter((file) => !findings.files().includes(file));

  const gateways: { readonly file: string; readonly directory: string; readonly loaded: LoadedGateway }[] = [];
  /** Whether a gateway.yaml could not be read: it may list further stages. */
  let is_unread = false;
  const alone: PipelineSpec[] = [];

  async function checkGateway(file: string): Promise<void> {
    const before = findings.errors();
    const loaded = await loadInto(file, options, findings);
    if (loaded === undefined) {
      is_unread = true;
      return;
    }
    const { config, stages } = loaded;
    if (config !== undefined && stages.own.size > 0 && findings.errors() === before) {
      const broken = await options.tryStages?.({ ...loaded, config });
      if (broken !== undefined) {
        const mark = { file: broken.file, line: broken.line, column: 1, length: 1, pointer: '' };
        findings.report('C4002', mark, `the stage ${quote(broken.stage)} cannot be created: ${broken.problem}`);
      }
    }
    gateways.push({ file, directory: dirname(file), loaded });
  }

  /** The gateway.yaml in the nearest directory above a file, else the only one of this check. */
  function gatewayOf(file: string): LoadedGateway | undefined {
    const above = gateways
      .filter(({ directory }) => file.startsWith(directory + sep))
      .toSorted((a, b) => b.directory.length - a.directory.length);
    return (above[0] ?? (gateways.length === 1 ? gateways[0] : undefined))?.loaded;
  }

  /** Checks a single pipeline, with the stages and names of the gateway.yaml it probably belongs to. */
  async function checkPipeline(file: string): Promise<void> {
    const gateway = gatewayOf(file);
    const stages = gateway?.stages ?? (await loadStages(options.stages, [], findings, !is_unread));
    const names = gateway && { names: gateway.names, shared_conditions: gateway.conditions };
    const context = { findings, env, environment, stages, config: gateway?.config, shipped, ...names };
    alone.push(...pipelinesOf(file, context).flatMap((source) => compilePipeline(source, context) ?? []));
  }

  /** The pipeline beside a test file, whether or not it belongs to a gateway.yaml. */
  async function pipelineBeside(test_file: string, name: string): Promise<readonly PipelineSpec[] | undefined> {
    const directory = dirname(test_file);
    // The pipeline may be one of several in a file.
    for (const file of pipelineFiles(directory))
      if (kindOf(file) === 'pipeline' && !findings.files().includes(file)) await checkPipeline(file);
    const all = [...alone, ...gateways.flatMap(({ loaded }) => loaded.compiled)];
    const found = all.find((pipeline) => pipeline.name === name && dirname(pipeline.file) === directory);
    return found === undefined ? undefined : [found];
  }

  /** The gateway.yaml that `appscli test` would use for a test file; `undefined` if it has errors. */
  async function gatewayNear(test_file: string): Promise<LoadedGateway | undefined> {
    const near = gatewayFileFor(test_file);
    if (near === undefined) return undefined;
    const ignored = createFindings();
    const loaded = await loadInto(near, options, ignored);
    return ignored.errors() > 0 ? undefined : loaded;
  }

  /** Checks a test against its pipeline; whether it could be read. @param is_sound whether the gateway.yaml has no errors */
  async function checkTest(file: string, is_sound: boolean): Promise<boolean> {
    const test = readTestFile(file, findings);
    if (test === undefined) return false;
    const gateway = gatewayOf(file) ?? (is_sound ? await gatewayNear(file) : undefined);
    const known =
      gateway?.compiled ??
      (await pipelineBeside(file, test.pipeline)) ??
      // If `pipeline` is misspelt, the file name still has the right name.
      (await pipelineBeside(file, basename(file).split('.')[0]!));
    // The contents of a pipeline with errors are unknown.
    if (is_sound && known !== undefined) checkAgainstPipeline(test, known, findings);
    if (is_sound && gateway?.config !== undefined) checkAgainstConfig(test, gateway.config, findings);
    return true;
  }

  // gateway.yaml first: it lists the operator's stages.
  for (const file of ofKind('gateway')) {
    if (file === config_file && isMissing(file)) reportMissing(file, findings, NO_CONFIG);
    else await checkGateway(file);
  }
  for (const file of unreadOfKind('pipeline')) await checkPipeline(file);
  const fragments = unreadOfKind('fragment').filter(
    (file) => readFragment(file, basename(file), findings) !== undefined,
  );
  const policies = unreadOfKind('policy').filter((file) => readPolicy(file, findings) !== undefined);
  const is_sound = findings.errors() === 0;
  for (const { file, directory, loaded } of gateways) {
    // gateway.test.yaml belongs to gateway.yaml, not to a configuration under another name.
    const own = /^gateway\.ya?ml$/.test(basename(file)) ? testFilesIn(directory) : [];
    for (const test of own) if (basename(test) === 'gateway.test.yaml') wanted.set(test, 'test');
    for (const test of testFilesIn(loaded.pipelines)) wanted.set(test, 'test');
  }
  let tests = 0;
  for (const file of ofKind('test')) if (await checkTest(file, is_sound)) tests += 1;
  const sound = gateways.flatMap(({ loaded: { config, compiled } }) =>
    config === undefined ? [] : [{ config, pipelines: compiled }],
  );
  const compiled = [...gateways.flatMap(({ loaded }) => loaded.compiled), ...alone];
  return {
    gateways: sound,
    pipelines: compiled.map(({ name }) => name),
    fragments: fragments.length,
    policies: policies.length + gateways.reduce((sum, { loaded }) => sum + loaded.policies.length, 0),
    tests,
    diagnostics: findings.diagnostics(),
    sources: findings.sources(),
  };
}

/** Reports a path without configuration, or why it cannot be read. */
function reportNothing(path: string, is_file: boolean, findings: Findings): void {
  if (!is_file) {
    findings.report('C1018', { file: path }, 'there is nothing to check here', {
      expected: 'a gateway.yaml, pipelines, fragments, policies or pipeline tests, in files that end in .yaml or .yml',
    });
    return;
  }
  const before = findings.errors();
  if (isMissing(path)) reportMissing(path, findings);
  const root = findings.errors() === before ? readSource(path, findings) : undefined;
  if (root === undefined || findings.errors() > before) return;
  findings.report('C1019', root.mark, 'the kind of this file is unknown', {
    expected:
      'one of the keys `server` (a gateway.yaml), `pipeline` (a pipeline), `fragment` (a fragment), `policy` (a managed policy) or `cases` (a pipeline test)',
    help: 'to check it as a gateway.yaml, name it with --config',
  });
}

function isMissing(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}

function reportMissing(path: string, findings: Findings, otherwise?: string): void {
  const help = didYouMean(basename(path), namesBeside(path, 'all'), otherwise);
  findings.report('C1001', { file: path }, 'the file does not exist', { help });
}

function testFilesIn(directory: string | undefined): string[] {
  if (directory === undefined || isMissing(directory)) return [];
  try {
    return readdirSync(directory)
      .filter(isTestFile)
      .toSorted()
      .map((name) => join(directory, name));
  } catch {
    // Loading its pipelines has reported the problem.
    return [];
  }
}
