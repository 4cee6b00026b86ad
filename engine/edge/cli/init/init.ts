import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { urlProblem } from '../../../base/kit/net/addresses.ts';
import { PACKAGE_ROOT } from '../../../base/kit/package-root.ts';
import { printableLines } from '../../../base/kit/text/printable.ts';
import { isEnvironmentName } from '../../../base/source/diagnostics/secrets.ts';
import { DEFINITIONS } from '../../../domain/protocols/definitions.ts';
import {
  DEFAULT_UPSTREAM_TYPE,
  isUpstreamType,
  UPSTREAM_TYPE_NAMES,
  UPSTREAM_TYPES,
  type UpstreamTypeName,
} from '../../../domain/upstreams/types/index.ts';
import { SHIPPED_PROFILE } from '../../../pipeline/load/profile.ts';
import { quoteForSh } from '../../client-files/key-helper.ts';
import { type CommandContext, type CommandRow, EXIT_OK, option, textThat, usageError } from '../commands.ts';
import { enterDirectory, isTaken, programPath, stagesTsconfig, writeNewFiles } from '../new-files.ts';
import { installedClients, NEUTRAL_PROFILE } from '../profiles.ts';
import { type Input, processInput } from '../terminal.ts';

const TEMPLATES = join(PACKAGE_ROOT, 'engine/edge/cli/init/project');
const FILES = ['gateway.yaml', 'gateway.test.yaml', join('pipelines', 'long-answers.yaml')];
/** npm excludes files of this name from packages, so the text is here. */
const GITIGNORE = '# The database of the gateway, with its password.\n.appscli/\nnode_modules/\n';

/** npm checks the required version against its own Node.js. */
const NPMRC = '# The gateway installs its own Node.js, so ignore warnings about the Node.js of npm.\nloglevel=error\n';

const NEUTRAL_ADVICE = `
This uses neutral names of client files and headers. For claude, codex and grok
set server.profile: ${SHIPPED_PROFILE} in gateway.yaml, and use --profile ${SHIPPED_PROFILE}
above.
`;

function fill(directory: string, name: string): string {
  const text = readFileSync(join(TEMPLATES, name), 'utf8');
  return text.replace(/(?<=^# yaml-language-server: \$schema=).+/, (schema) =>
    relative(dirname(join(directory, name)), join(TEMPLATES, dirname(name), schema))
      .split(sep)
      .join('/'),
  );
}

function nextSteps(
  directory: string,
  env: NodeJS.ProcessEnv,
  { base_url, key_env }: NewUpstream,
  profile: NewProfile,
  npmrc: boolean,
): string {
  const appscli = 'appscli';
  const { line, is_there } = programPath(directory, env);
  const enter = `${enterDirectory(directory)}${line}`;
  const install = is_there
    ? ''
    : `  npm install ${npmrc ? '' : '--loglevel=error '}\\\n    ${quoteForSh(PACKAGE_ROOT)}\n`;
  const is_played = base_url === undefined;
  const commands = [
    [`export ${key_env}=secret`, is_played ? 'the mock accepts any key' : 'the key of your provider'],
    [`${appscli} check`, 'check the configuration'],
    [`${appscli} test`, 'test the rule'],
    ...(is_played ? [[`${appscli} mock-upstream &`, 'mock provider; stop: `kill %1`']] : []),
    [`${appscli} gateway --watch`, 'run it; reloads on changes'],
  ] as const;
  return `
Wrote a gateway with one rule: responses are limited to 8000 tokens. Next:

${enter}${install}${commands.map(([command, comment]) => `  ${command!.padEnd(30)}# ${comment}\n`).join('')}
In another terminal, request more than the rule allows:

${enter}  TOKEN=$(${appscli} tokens create --user me@example.com --group all --name me)
  curl http://127.0.0.1:8080/v1/messages \\
    -H "x-api-key: $TOKEN" -H 'content-type: application/json' \\
    -d '{"model": "coder-1", "max_tokens": 9000,
         "messages": [{"role": "user", "content": "Hello"}]}'

Then change 8000 to 10000 in pipelines/long-answers.yaml, and request again${is_played ? ': the\nmock responds. To use a real provider, set its address in gateway.yaml.' : `. Before\nthat, replace coder-1 in gateway.yaml by models of your provider.`}

Set up a coding client; the command shows the change, and asks:

  ${appscli} client coding-cli --model coder-1 --profile ${profile} \\
    --base-url http://127.0.0.1:8080
${profile === NEUTRAL_PROFILE ? NEUTRAL_ADVICE : ''}
Troubleshooting:

  ${appscli} doctor --config gateway.yaml   # check this host
  ${appscli} doctor                         # check coding clients
  TOKEN=$TOKEN ${appscli} selfcheck --token-env TOKEN \\
    --base-url http://127.0.0.1:8080          # check the gateway
`;
}

/** `appscli init`: on a terminal it asks for the upstream. Raises StartError if a file exists, and writes nothing. */
async function init(
  { terminal, env }: CommandContext,
  options: UpstreamOptions & { readonly directory?: string; readonly profile?: string },
): Promise<number> {
  const { directory = '.' } = options;
  const input = processInput();
  const target = resolve(directory);
  const taken = FILES.filter((name) => isTaken(join(target, name)));
  const answering = taken.length > 0 ? { ...input, answers: false } : input;
  const upstream = await chooseUpstream(options, answering, terminal.info);
  const asking = options.upstreamUrl === undefined ? answering : { ...answering, answers: false };
  const profile = await chooseProfile(options.profile, asking, env);
  const text = (name: string) => {
    const filled = withUpstream(name, fill(target, name), upstream);
    if (name !== 'gateway.yaml' || profile === NEUTRAL_PROFILE) return filled;
    return filled.replace(/^ {2}# profile: shipped/m, '  profile: shipped');
  };
  const files = Object.fromEntries(FILES.map((name) => [name, text(name)]));
  const further = { '.gitignore': GITIGNORE, '.npmrc': NPMRC, 'tsconfig.json': stagesTsconfig(target) };
  for (const [name, text] of Object.entries(further)) if (!isTaken(join(target, name))) files[name] = text;
  await writeNewFiles(directory, files);
  terminal.data(printableLines(Object.keys(files).map((name) => join(directory, name))));
  terminal.info(nextSteps(directory, env, upstream, profile, '.npmrc' in files));
  return EXIT_OK;
}

type NewProfile = typeof SHIPPED_PROFILE | typeof NEUTRAL_PROFILE;

async function chooseProfile(options: string | undefined, input: Input, env: NodeJS.ProcessEnv): Promise<NewProfile> {
  if (options === SHIPPED_PROFILE || options === NEUTRAL_PROFILE) return options;
  if (options !== undefined)
    throw usageError(
      `--profile: expected ${SHIPPED_PROFILE} or ${NEUTRAL_PROFILE}; for another profile edit gateway.yaml later`,
    );
  const found = installedClients(env);
  const usual = found.length > 0 ? SHIPPED_PROFILE : NEUTRAL_PROFILE;
  if (!input.answers) return usual;
  const here = found.length > 0 ? `; here: ${found.map(({ program }) => program).join(', ')}` : '';
  const [yes, no] = usual === SHIPPED_PROFILE ? ['Y', 'n'] : ['y', 'N'];
  const question = `Will people use claude, codex or grok (names of real clients${here})? [${yes}/${no}] `;
  const line = (await input.line(question, false)).trim();
  if (line === '') return usual;
  return /^y(?:es)?$/i.test(line) ? SHIPPED_PROFILE : NEUTRAL_PROFILE;
}

interface UpstreamOptions {
  readonly upstreamUrl?: string;
  readonly upstreamType?: UpstreamTypeName;
  readonly keyEnv?: string;
}

interface NewUpstream {
  readonly base_url: string | undefined;
  readonly type: UpstreamTypeName;
  readonly key_env: string;
}

const KEY_ENV = 'UPSTREAM_KEY';

/** The definition of the first protocol of a type, which a new gateway.yaml has. */
const definitionOfType = (type: UpstreamTypeName) => DEFINITIONS[UPSTREAM_TYPES[type].protocols[0]!];

function listTypes(format: (name: string, speaks: string) => string): string {
  return UPSTREAM_TYPE_NAMES.map((name) => format(name, definitionOfType(name).name)).join(' or ');
}

const PROBLEMS = {
  url: (text: string): string | undefined => {
    const problem = urlProblem(text, 'base');
    return (
      problem && `invalid address of the upstream: ${problem}; expected an address such as https://api.example.com`
    );
  },
  type: (text: string): string | undefined =>
    isUpstreamType(text) ? undefined : `write ${listTypes((name, speaks) => `${name} (${speaks})`)}`,
  key_env: (text: string): string | undefined =>
    isEnvironmentName(text)
      ? undefined
      : `expected the name of an environment variable, such as ${KEY_ENV}, not the key itself`,
};

/** The upstream: by options, else by questions on a terminal. Raises StartError. */
export async function chooseUpstream(
  options: UpstreamOptions,
  input: Input,
  print: (text: string) => void,
): Promise<NewUpstream> {
  const { upstreamUrl: url, upstreamType: type, keyEnv: key_env } = options;
  const problem =
    (url !== undefined && PROBLEMS.url(url)) || (key_env !== undefined && PROBLEMS.key_env(key_env)) || undefined;
  if (problem !== undefined) throw usageError(problem);
  if (url === undefined && type !== undefined) throw usageError('--upstream-type needs --upstream-url');
  const usual = { type: type ?? DEFAULT_UPSTREAM_TYPE, key_env: key_env ?? KEY_ENV };
  if (url !== undefined || !input.answers) return { base_url: url, ...usual };
  const ask = async (question: string, fallback: string, problemOf: (text: string) => string | undefined) => {
    for (;;) {
      const line = (await input.line(question, false)).trim() || fallback;
      const wrong = line === fallback ? undefined : problemOf(line);
      if (wrong === undefined) return line;
      print(`${wrong}\n`);
    }
  };
  const base_url = await ask('Address of your provider (Enter: a mock on this machine): ', '', PROBLEMS.url);
  if (base_url === '') return { base_url: undefined, ...usual };
  const types = listTypes((name, speaks) => `${speaks} (${name})`);
  const question = `Does it speak ${types}? [${DEFAULT_UPSTREAM_TYPE}] `;
  return {
    base_url,
    type: (await ask(question, DEFAULT_UPSTREAM_TYPE, PROBLEMS.type)) as UpstreamTypeName,
    key_env: key_env ?? (await ask(`Name of the variable with its key [${KEY_ENV}]: `, KEY_ENV, PROBLEMS.key_env)),
  };
}

function withUpstream(name: string, text: string, { base_url, type, key_env }: NewUpstream): string {
  const { name: speaks, example_response: response } = definitionOfType(type);
  const [protocol] = UPSTREAM_TYPES[type].selectable_protocols;
  if (name === 'gateway.test.yaml') {
    if (response === undefined) return text;
    return text
      .replaceAll(/(?<=json:)\s+\{\s+type: message,[^}]*usage: \{[^}]*\},?\s+\}/g, () => ` ${response}`)
      .replace('      unchanged: true\n', '');
  }
  if (name !== 'gateway.yaml') return text;
  const named = text.replace(/(?<=^ {4}api_key_env: ).+/m, () => key_env);
  if (base_url === undefined) return named;
  const type_line = `${type} # speaks ${speaks}: requests of other clients are translated`;
  const protocols_line = protocol === undefined ? '' : `\n    protocols: [${protocol}]`;
  return named
    .replace(/^# Providers of models\. .+/m, '# Providers of models.')
    .replace(/(?<=^ {4}base_url: ).+/m, () => base_url)
    .replace('    profile: neutral\n', '    # profile: anthropic\n')
    .replace(/(?<=^ {4}type: ).+/m, (own) => (type === DEFAULT_UPSTREAM_TYPE ? own : type_line + protocols_line));
}

export const commands: readonly CommandRow[] = [
  {
    arguments: [['[directory]', 'directory for the files (default: the current one); created if missing']],
    options: [
      option(
        '--upstream-url <url>',
        'address of your provider (default: ask on a terminal, else `appscli mock-upstream`)',
      ),
      option(
        '--upstream-type <type>',
        `API of the provider: ${listTypes((name, speaks) => `${name} (${speaks})`)}`,
        textThat(isUpstreamType, `Expected ${UPSTREAM_TYPE_NAMES.join(' or ')}.`),
      ),
      option('--key-env <name>', 'name of the variable with its key (default: UPSTREAM_KEY)'),
      option(
        '--profile <name>',
        'names of coding clients: shipped (claude, codex, grok) or neutral (default: ask, else by installed clients)',
      ),
    ],
    notes: 'Never overwrites files: if one exists, nothing is written.',
    examples: [
      'appscli init',
      'appscli init my-gateway',
      'appscli init --upstream-url https://api.example.com --key-env API_KEY',
    ],
    run: init,
  },
];
