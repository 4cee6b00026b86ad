import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import type { GatewayConfig } from '../config.ts';
import type { Diagnostic } from '../diagnostics/diagnostic.ts';
import { loadStages } from './custom-stages.ts';
import { createFindings, type Findings } from './findings.ts';
import { readFragment } from './fragments.ts';
import { type LoadedGateway, type LoadOptions, loadInto } from './index.ts';
import { compilePipeline, SHIPPED_PIPELINES } from './pipelines.ts';
import { readSource } from './source.ts';

/** What a check of files and directories found. */
export interface CheckedPaths {
  readonly configs: readonly GatewayConfig[];
  /** Names of the pipelines that compiled. */
  readonly pipelines: readonly string[];
  readonly fragments: number;
  readonly diagnostics: readonly Diagnostic[];
  /** Text of each file with secrets blanked out. */
  readonly sources: ReadonlyMap<string, string>;
}

type Kind = 'gateway' | 'pipeline' | 'fragment';

const isConfiguration = (name: string): boolean => /\.ya?ml$/.test(name) && !/\.test\.ya?ml$/.test(name);

function filesIn(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) return /^\.|^node_modules$/.test(entry.name) ? [] : filesIn(path);
      return entry.isFile() && isConfiguration(entry.name) ? [path] : [];
    });
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    // Reading it as configuration will say why.
    return '';
  }
}

/** Of which kind a file is; told by its text, so that a file that is not even valid YAML is told, too. */
function kindOf(file: string): Kind | undefined {
  if (/^gateway\.ya?ml$/.test(basename(file))) return 'gateway';
  const text = textOf(file);
  if (/^(?:pipeline|match|on_error|finally)\s*:/m.test(text)) return 'pipeline';
  if (/^(?:fragment|parameters)\s*:/m.test(text)) return 'fragment';
  return /^(?:server|upstreams|routing)\s*:/m.test(text) ? 'gateway' : undefined;
}

/**
 * Checks files and directories: every gateway.yaml with what it brings along, then pipelines and fragments that none of
 * them used, by themselves. In a directory, YAML files of another kind are passed over.
 */
export async function loadPaths(paths: readonly string[], options: LoadOptions): Promise<CheckedPaths> {
  const findings = createFindings();
  const named = paths.map((path) => resolve(path));
  const found = named.flatMap((path) => (isDirectory(path) ? filesIn(path) : [path]));
  const checker = new PathChecker(options, findings);
  const wanted = found.map((file) => ({ file, kind: kindOf(file) }));
  // gateway.yaml first: it says which stages there are. What was asked for and is of no other kind is meant to be one.
  for (const { file, kind } of wanted) {
    if (kind === 'gateway' || (kind === undefined && named.includes(file))) await checker.gateway(file);
  }
  for (const { file, kind } of wanted) {
    if (findings.files().includes(file)) continue;
    if (kind === 'pipeline') await checker.pipeline(file);
    if (kind === 'fragment') checker.fragment(file);
  }
  const { configs, pipelines, fragments } = checker;
  return { configs, pipelines, fragments, diagnostics: findings.diagnostics(), sources: findings.sources() };
}

class PathChecker {
  readonly configs: GatewayConfig[] = [];
  readonly pipelines: string[] = [];
  fragments = 0;
  private latest: LoadedGateway | undefined;
  private readonly options: LoadOptions;
  private readonly findings: Findings;

  constructor(options: LoadOptions, findings: Findings) {
    this.options = options;
    this.findings = findings;
  }

  async gateway(file: string): Promise<void> {
    const gateway = await loadInto(file, this.options, this.findings);
    if (gateway === undefined) return;
    this.latest = gateway;
    if (gateway.config !== undefined) this.configs.push(gateway.config);
    this.pipelines.push(...gateway.compiled.map(({ name }) => name));
  }

  fragment(file: string): void {
    if (readFragment(file, basename(file), this.findings) !== undefined) this.fragments += 1;
  }

  /** A pipeline by itself, with the stages and names of the gateway.yaml that was checked last. */
  async pipeline(file: string): Promise<void> {
    const { findings, latest } = this;
    const { env, environment, shipped_pipelines: shipped = SHIPPED_PIPELINES } = this.options;
    const stages = latest?.stages ?? (await loadStages(this.options.stages, [], findings));
    const context = { findings, env, environment, stages, config: latest?.config, shipped };
    const root = readSource(file, findings);
    const compiled = root && compilePipeline(file, root, latest ? { ...context, names: latest.names } : context);
    if (compiled !== undefined) this.pipelines.push(compiled.name);
  }
}
