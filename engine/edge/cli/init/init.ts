import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { urlProblem } from '../../../base/kit/net/addresses.ts';
import { PACKAGE_ROOT } from '../../../base/kit/package-root.ts';
import { printableLines } from '../../../base/kit/text/printable.ts';
import { isEnvironmentName } from '../../../base/source/diagnostics/secrets.ts';
import { SHIPPED_PROFILE } from '../../../pipeline/load/profile.ts';
import { type Input, processInput } from '../client/client-write.ts';
import type { CommandRow } from '../commands.ts';

import type { CommandContext } from '../context.ts';
import { EXIT_OK, usageError } from '../exit-codes.ts';
import { enterDirectory, isTaken, programPath, shellWord, stagesTsconfig, writeNewFiles } from '../new-files.ts';
import { choice, option } from '../options.ts';
import { installedClients, NEUTRAL_PROFILE } from '../profiles.ts';

const TEMPLATES = join(PACKAGE_ROOT, 'engine/edge/cli/init/project');
const FILES = ['gateway.yaml', 'gateway.test.yaml', join('pipelines', 'long-answers.yaml')];
/** npm leaves files of this name out of packages, so its text stands here. */
const GITIGNORE = '# The database of the gateway, with its password.\n.appscli/\nnode_modules/\n';

/** npm compares what packages ask for with the Node.js that it runs on itself. */
const NPMRC =
  '# Node.js for the gateway comes with it: that npm itself runs on an older one is no trouble.\nloglevel=error\n';

const NEUTRAL_ADVICE = `
The names of client files and headers are neutral: claude, codex and grok read
others. For these, set server.profile: ${SHIPPED_PROFILE} in gateway.yaml, and --profile
${SHIPPED_PROFILE} above.
`;

interface Written {
  readonly upstream: NewUpstream;
  readonly profile: NewProfile;
  /** Whether npm was told what not to warn about. */
  readonly npmrc: boolean;
}

/** A template as it is to stand in the new directory: its line for editors leads to the schema of this installation. */
function fill(directory: string, name: string): string {
  const text = readFileSync(join(TEMPLATES, name), 'utf8');
  return text.replace(/(?<=^# yaml-language-server: \$schema=).+/, (schema) =>
    relative(dirname(join(directory, name)), join(TEMPLATES, dirname(name), schema))
      .split(sep)
      .join('/'),
  );
}

function nextSteps(directory: string, env: NodeJS.ProcessEnv, { upstream, profile, npmrc }: Written): string {
  const appscli = 'appscli';
  const { base_url, key_env } = upstream;
  const { line, is_there } = programPath(directory, env);
  const enter = `${enterDirectory(directory)}${line}`;
  // On a line of its own, as nobody knows how long it is.
  const install = is_there
    ? ''
    : `  npm install ${npmrc ? '' : '--loglevel=error '}\\\n    ${shellWord(PACKAGE_ROOT)}\n`;
  const is_played = base_url === undefined;
  const commands = [
    [`export ${key_env}=secret`, is_played ? 'the mock takes any key' : 'the key of your provider'],
    [`${appscli} check`, 'is everything right?'],
    [`${appscli} test`, 'does the rule do what it says?'],
    ...(is_played ? [[`${appscli} mock-upstream &`, 'plays the provider, until `kill %1`']] : []),
    [`${appscli} gateway --watch`, 'run it; changes of files take effect'],
  ] as const;
  return `
A gateway with one rule of its own: nobody gets answers above 8000 tokens. Next:

${enter}${install}${commands.map(([command, comment]) => `  ${command!.padEnd(30)}# ${comment}\n`).join('')}
In another terminal, ask for more than the rule allows:

${enter}  TOKEN=$(${appscli} tokens create --user me@example.com --group all --name me)
  curl http://127.0.0.1:8080/v1/messages \\
    -H "x-api-key: $TOKEN" -H 'content-type: application/json' \\
    -d '{"model": "coder-1", "max_tokens": 9000,
         "messages": [{"role": "user", "content": "Hello"}]}'

Then write 10000 for 8000 in pipelines/long-answers.yaml, and ask again${is_played ? ': the\nmock-upstream answers. The address of a provider belongs into gateway.yaml.' : `. Before\nthat, put models of your provider into gateway.yaml in place of coder-1.`}

Set up a coding client for it; the command shows the change first, and asks:

  ${appscli} client coding-cli --model coder-1 --profile ${profile} \\
    --base-url http://127.0.0.1:8080
${profile === NEUTRAL_PROFILE ? NEUTRAL_ADVICE : ''}
When something does not work, these say why:

  ${appscli} doctor --config gateway.yaml   # is this machine right?
  ${appscli} doctor                         # is a coding client right?
  TOKEN=$TOKEN ${appscli} selfcheck --token-env TOKEN \\
    --base-url http://127.0.0.1:8080          # is a gateway right?
`;
}

/**
 * `appscli init`: writes a gateway.yaml with comments, a pipeline with one rule and its tests into a directory, and what editors
 * need for stages. In a terminal it asks for the upstream, unless options name it. Raises StartError, without having written
 * anything, when one of these files exists.
 */
async function init(
  { terminal, env }: CommandContext,
  given: UpstreamOptions & { readonly directory?: string; readonly profile?: string },
): Promise<number> {
  const { directory = '.' } = given;
  const input = processInput();
  const target = resolve(directory);
  const taken = FILES.filter((name) => isTaken(join(target, name)));
  // Nobody answers questions for nothing.
  const answering = taken.length > 0 ? { ...input, answers: false } : input;
  const upstream = await chooseUpstream(given, answering, terminal.info);
  // Who named the upstream wants no questions.
  const asking = given.upstreamUrl === undefined ? answering : { ...answering, answers: false };
  const profile = await chooseProfile(given.profile, asking, env);
  const text = (name: string) => withProfile(name, withUpstream(name, fill(target, name), upstream), profile);
  const files = Object.fromEntries(FILES.map((name) => [name, text(name)]));
  // A directory that is in use has some already, and they are its owner's.
  const further = { '.gitignore': GITIGNORE, '.npmrc': NPMRC, 'tsconfig.json': stagesTsconfig(target) };
  for (const [name, text] of Object.entries(further)) if (!isTaken(join(target, name))) files[name] = text;
  await writeNewFiles(directory, files);
  terminal.data(printableLines(Object.keys(files).map((name) => join(directory, name))));
  terminal.info(nextSteps(directory, env, { upstream, profile, npmrc: '.npmrc' in files }));
  return EXIT_OK;
}

/** Whose names the new configuration has for coding clients. */
type NewProfile = typeof SHIPPED_PROFILE | typeof NEUTRAL_PROFILE;

/** The profile by the option, else by what somebody answers, else by the clients on the PATH. Raises StartError. */
async function chooseProfile(given: string | undefined, input: Input, env: NodeJS.ProcessEnv): Promise<NewProfile> {
  if (given === SHIPPED_PROFILE || given === NEUTRAL_PROFILE) return given;
  if (given !== undefined)
    throw usageError(
      `--profile: write ${SHIPPED_PROFILE} or ${NEUTRAL_PROFILE}; another file can stand in gateway.yaml later`,
    );
  const found = installedClients(env);
  const usual = found.length > 0 ? SHIPPED_PROFILE : NEUTRAL_PROFILE;
  if (!input.answers) return usual;
  const here = found.length > 0 ? `; here: ${found.map(({ program }) => program).join(', ')}` : '';
  const [yes, no] = usual === SHIPPED_PROFILE ? ['Y', 'n'] : ['y', 'N'];
  const said = (
    await input.line(`Will people use claude, codex or grok (names of real clients${here})? [${yes}/${no}] `, false)
  ).trim();
  if (said === '') return usual;
  return /^y(?:es)?$/i.test(said) ? SHIPPED_PROFILE : NEUTRAL_PROFILE;
}

function withProfile(name: string, text: string, profile: NewProfile): string {
  if (name !== 'gateway.yaml' || profile === NEUTRAL_PROFILE) return text;
  return text.replace(/^ {2}# profile: shipped/m, '  profile: shipped');
}

/** What is said of the upstream on the command line. */
interface UpstreamOptions {
  readonly upstreamUrl?: string;
  readonly upstreamType?: 'vendor' | 'compat';
  readonly keyEnv?: string;
}

interface NewUpstream {
  /** `undefined` for the mock on this machine. */
  readonly base_url: string | undefined;
  readonly type: 'vendor' | 'compat';
  readonly key_env: string;
}

const KEY_ENV = 'UPSTREAM_KEY';

/** What is wrong with an answer, in words that do not repeat it: somebody may have pasted a key. */
const PROBLEMS = {
  url: (text: string): string | undefined => {
    const problem = urlProblem(text, 'base');
    return (
      problem && `the address of the upstream cannot be used: ${problem}; write one such as https://api.example.com`
    );
  },
  type: (text: string): string | undefined =>
    text === 'vendor' || text === 'compat'
      ? undefined
      : 'write vendor (it speaks Messages) or compat (chat completions)',
  key_env: (text: string): string | undefined =>
    isEnvironmentName(text)
      ? undefined
      : `that is no name of an environment variable: letters, digits and _, such as ${KEY_ENV}; never the key itself`,
};

/** The upstream by the options; where there are none and somebody can answer, it asks. Raises StartError. */
export async function chooseUpstream(
  given: UpstreamOptions,
  input: Input,
  tell: (text: string) => void,
): Promise<NewUpstream> {
  const { upstreamUrl: url, upstreamType: type, keyEnv: key_env } = given;
  const problem =
    (url !== undefined && PROBLEMS.url(url)) || (key_env !== undefined && PROBLEMS.key_env(key_env)) || undefined;
  if (problem !== undefined) throw usageError(problem);
  if (url === undefined && type !== undefined)
    throw usageError('--upstream-type is of an upstream that --upstream-url names');
  const is_asked = url === undefined && input.answers;
  const ask = async (question: string, usual: string, problemOf: (text: string) => string | undefined) => {
    for (;;) {
      const said = (await input.line(question, false)).trim() || usual;
      const wrong = said === usual ? undefined : problemOf(said);
      if (wrong === undefined) return said;
      tell(`${wrong}\n`);
    }
  };
  const base_url = is_asked
    ? await ask('Address of your provider (Enter: a mock on this machine): ', '', PROBLEMS.url)
    : url;
  const is_own = base_url !== undefined && base_url !== '';
  const asks = is_asked && is_own;
  return {
    base_url: is_own ? base_url : undefined,
    type: ((asks
      ? await ask('Does it speak Messages (vendor) or chat completions (compat)? [vendor] ', 'vendor', PROBLEMS.type)
      : type) ?? 'vendor') as 'vendor' | 'compat',
    key_env:
      (asks && key_env === undefined
        ? await ask(`Name of the variable with its key [${KEY_ENV}]: `, KEY_ENV, PROBLEMS.key_env)
        : key_env) ?? KEY_ENV,
  };
}

const CHAT_ANSWER =
  '{ object: chat.completion, choices: [{ index: 0, message: { role: assistant, content: Hi }, finish_reason: stop }], usage: { prompt_tokens: 10, completion_tokens: 5 } }';

function withUpstream(name: string, text: string, { base_url, type, key_env }: NewUpstream): string {
  if (name === 'gateway.test.yaml') {
    if (type === 'vendor') return text;
    return text
      .replaceAll(/(?<=json:)\s+\{\s+type: message,[^}]*usage: \{[^}]*\},?\s+\}/g, () => ` ${CHAT_ANSWER}`)
      .replace('      unchanged: true\n', '');
  }
  if (name !== 'gateway.yaml') return text;
  const named = text.replace(/(?<=^ {4}api_key_env: ).+/m, () => key_env);
  if (base_url === undefined) return named;
  const speaks = 'compat # speaks chat completions: requests of other clients are translated\n    protocols: [chat]';
  return named
    .replace(/^# Providers of models\. .+/m, '# Providers of models.')
    .replace(/(?<=^ {4}base_url: ).+/m, () => base_url)
    .replace('    profile: neutral\n', '    # profile: anthropic\n')
    .replace(/(?<=^ {4}type: )vendor.+/m, (vendor) => (type === 'vendor' ? vendor : speaks));
}

/** `appscli init`. */
export const commands: readonly CommandRow[] = [
  {
    arguments: [['[directory]', 'where to write them, the current one unless given; made when it is not there']],
    options: [
      option(
        '--upstream-url <url>',
        'address of your provider; asked for in a terminal, else that of `appscli mock-upstream`',
      ),
      choice('--upstream-type <type>', 'what it speaks: vendor is Messages, compat chat completions', [
        'vendor',
        'compat',
      ]),
      option('--key-env <name>', 'name of the variable with its key (default: UPSTREAM_KEY)'),
      option(
        '--profile <name>',
        'names of coding clients: shipped (claude, codex, grok) or neutral; asked for in a terminal, else by what is installed',
      ),
    ],
    notes: 'A file that exists is never touched: then nothing is written.',
    examples: [
      'appscli init',
      'appscli init my-gateway',
      'appscli init --upstream-url https://api.example.com --key-env API_KEY',
    ],
    run: init,
  },
];
