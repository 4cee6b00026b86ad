import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { PACKAGE_ROOT } from '../../kit/package-root.ts';
import { printableLines } from '../../kit/text/printable.ts';
import { SHIPPED_PROFILE } from '../../load/profile.ts';
import { processInput } from '../client/client-input.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { enterDirectory, isTaken, programPath, shellWord, writeNewFiles } from '../new-files.ts';
import { NEUTRAL_PROFILE } from '../profiles.ts';
import { stagesTsconfig } from '../stages-project.ts';
import { chooseProfile, type NewProfile, withProfile } from './profile.ts';
import { chooseUpstream, type NewUpstream, type UpstreamOptions, withUpstream } from './upstream.ts';

const TEMPLATES = join(PACKAGE_ROOT, 'engine', 'cli', 'init', 'project');
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
    [`export ${key_env}=secret`, is_played ? 'the stand-in takes any key' : 'the key of your provider'],
    [`${appscli} check`, 'is everything right?'],
    [`${appscli} test`, 'does the rule do what it says?'],
    ...(is_played ? [[`${appscli} stand-in &`, 'plays the provider, until `kill %1`']] : []),
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

Then write 10000 for 8000 in pipelines/long-answers.yaml, and ask again${is_played ? ': the\nstand-in answers. The address of a provider belongs into gateway.yaml.' : `. Before\nthat, put models of your provider into gateway.yaml in place of coder-1.`}

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
export async function init(
  { terminal, env }: CommandContext,
  directory: string,
  given: UpstreamOptions & { readonly profile?: string },
  input = processInput(),
): Promise<number> {
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
