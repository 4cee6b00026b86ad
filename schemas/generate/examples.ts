import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { StageDefinition } from '../../engine/api.ts';
import { DIAGNOSTICS, type DiagnosticSpec } from '../../engine/base/source/diagnostics/codes.ts';
import { renderDiagnostics } from '../../engine/base/source/diagnostics/render.ts';
import { loadPaths } from '../../engine/pipeline/load/paths.ts';

const GATEWAY = `server: { listen: 127.0.0.1:8080, public_url: https://gateway.example.com }
upstreams: [{ name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }]
models: [{ id: coder-1, family: coder, max_output_tokens: 64000, pricing: { input: 3, output: 15 } }]
routing: { default_upstream: main }
`;

const PIPELINE = `pipeline: mine
version: 1
summary: Forwards requests.
match: { methods: [POST], paths: [/mine], protocol: messages }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: resolve-route
  - stage: check-budget
  - stage: meter-usage
  - stage: forward
finally: [{ stage: audit }]
`;

const FRAGMENT = `fragment: refuse
version: 1
summary: Refuses requests.
stages: [{ stage: reject, options: { error: forbidden } }]
`;

const POLICY = `policy: standard
version: 1
summary: For everybody.
settings: {}
`;

const TEST = 'pipeline: mine\n';

/** Where a part of a file belongs, by its first key, and what completes a file there. */
const KINDS: readonly (readonly [path: string, first_key: RegExp, rest: string])[] = [
  ['pipelines/mine.test.yaml', /^cases\b/, TEST],
  ['pipelines/fragments/refuse.yaml', /^(?:fragment|parameters)\b/, FRAGMENT],
  ['pipelines/more.yaml', /^extends\b/, ''],
  ['pipelines/mine.yaml', /^(?:pipeline|match|stages|on_error|finally)\b/, PIPELINE],
  ['policies/standard.yaml', /^(?:policy|settings)\b/, POLICY],
  ['gateway.yaml', /^/, GATEWAY],
];

/** What `...` stands for in examples. */
const REST: readonly (readonly [RegExp, string])[] = [
  [/(?<=oidc: \{ )\.\.\./g, 'issuer_url: https://id.example.com, client_id: gateway, client_secret_env: UPSTREAM_KEY'],
  [/(?<=name: main, )\.\.\./g, 'type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY'],
  [/(?<=stages:\n) {2}- \.\.\./g, '  - stage: authenticate\n  - stage: read-body\n  - stage: resolve-route'],
];

/** A pipeline with a stage that is only run under a condition. */
const guarded = (when: string) =>
  PIPELINE.replace(
    /(?= {2}- stage: check-budget)/,
    () => `  - stage: reject\n    ${when}\n    options: { error: forbidden }\n`,
  );

/** A file with the sections that a part of it lacks. */
function completed(part: string, rest: string): string {
  const has = new Set([...part.matchAll(/^([\w-]+):/gm)].map(([, key]) => key));
  const lacking = rest.split(/^(?=\w)/m).filter((section) => !has.has(section.slice(0, section.indexOf(':'))));
  return [`${part.trimEnd()}\n`, ...lacking].join('');
}

/** The files of an example. `# path` begins one; without it, the first key tells where it belongs. */
function partsOf(example: string): Map<string, string> {
  const whole = REST.reduce((text, [dots, rest]) => text.replace(dots, rest), example);
  const files = new Map<string, string>();
  for (const part of whole.split(/^(?=# \S+\.(?:yaml|ts)$)/m).filter((text) => text !== '')) {
    const [head = '', named] = /^# (\S+\.(?:yaml|ts))\n/.exec(part) ?? [];
    const text = part.slice(head.length);
    const [path, , rest] = KINDS.find(([, first_key]) => first_key.test(text))!;
    if (named !== undefined) files.set(named, named.startsWith('p') ? completed(text, rest) : text);
    else if (text.startsWith('when:')) files.set('pipelines/mine.yaml', guarded(text.trimEnd()));
    else files.set(path, completed(text, path === 'gateway.yaml' ? '' : rest));
  }
  return files;
}

/** What an example leaves out: a gateway.yaml that knows its other files, and the pipeline of a test. */
function filesOf(example: string): Map<string, string> {
  const files = partsOf(example);
  const below = (directory: string) => [...files.keys()].filter((name) => name.startsWith(directory));
  if (below('pipelines/').some((name) => name.includes('.test.'))) files.set('pipelines/mine.yaml', PIPELINE);
  const sections = [
    GATEWAY,
    below('pipelines/').length > 0 ? 'pipelines: pipelines\n' : '',
    below('policies/standard').length > 0 ? 'policies: { managed: { default_policy: standard } }\n' : '',
    below('policies/').length > 0 ? 'policies: { managed: {} }\n' : '',
    below('stages/').length > 0 ? `stages: [${below('stages/').join(', ')}]\n` : '',
  ];
  return sections.reduce((all, rest) => all.set('gateway.yaml', completed(all.get('gateway.yaml') ?? '', rest)), files);
}

interface Command {
  readonly paths: readonly string[];
  readonly config?: string;
  readonly environment: 'required' | 'ignored';
}

/** What is checked, and how: everything, unless the example begins with a command. */
function commandOf(line: string, directory: string): Command {
  const [, name, option, path] = /^appscli (check|gateway) (--config )?(\S+)/.exec(line) ?? [];
  const environment = name === 'gateway' ? 'required' : 'ignored';
  if (path === undefined) return { paths: [directory], environment };
  const checked = join(directory, path);
  if (path.endsWith('/')) mkdirSync(checked);
  return option === undefined ? { paths: [checked], environment } : { paths: [], config: checked, environment };
}

/** What `check` says about the example of a diagnostic. */
async function checkExample(example: string, stages: readonly StageDefinition[]): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'appscli-example-'));
  try {
    const command = commandOf(example, directory);
    for (const [name, content] of filesOf(example.replace(/^appscli .*\n?/, ''))) {
      mkdirSync(dirname(join(directory, name)), { recursive: true });
      writeFileSync(join(directory, name), content);
    }
    const { paths, ...how } = command;
    const { diagnostics, sources } = await loadPaths(paths, { ...how, stages, env: { UPSTREAM_KEY: 'set' } });
    const said = renderDiagnostics(diagnostics, { format: 'text', color: false, sources, cwd: directory });
    // How long the name of a temporary directory is decides where the text breaks before it.
    return said.replaceAll(directory, '.').replaceAll(/\n +('?)\.\//g, ' $1./');
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** What `check` prints for the example of each code, by code; without those whose example only describes it. */
export async function printedExamples(stages: readonly StageDefinition[]): Promise<Readonly<Record<string, string>>> {
  const printed: Record<string, string> = {};
  for (const [code, { example }] of Object.entries(DIAGNOSTICS as Record<string, DiagnosticSpec>)) {
    const findings = (await checkExample(example, stages)).trimEnd().split('\n\n');
    if (findings.every((finding) => /^\w+\[(\w+)\]/.exec(finding)?.[1] === code)) printed[code] = findings[0]!;
  }
  return Object.fromEntries(Object.entries(printed).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
