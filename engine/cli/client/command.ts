import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import type { ClientKind } from '../../client-files/clients.ts';
import { PLATFORMS } from '../../client-files/key-helper.ts';
import { SHELLS } from '../../client-files/shell-lines.ts';
import { SIGNALS, type Signal } from '../../contract/client-telemetry.ts';
import { isPrintableLine } from '../../kit/text/printable.ts';
import type { CommandContext } from '../context.ts';
import { baseUrl, examples, json, notEmpty } from '../options.ts';

type Finish = (exit_code: number) => void;

const CONTEXT_WINDOW_MIN = 1000;
const CONTEXT_WINDOW_MAX = 100_000_000;

/** A text for a client's file: no line breaks, nothing a terminal acts upon. */
function oneLine(text: string): string {
  if (!isPrintableLine(text) || text.length > 300) throw new InvalidArgumentError('Write one line of text.');
  return notEmpty(text);
}

function contextWindow(text: string): number {
  const tokens = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (tokens >= CONTEXT_WINDOW_MIN && tokens <= CONTEXT_WINDOW_MAX) return tokens;
  throw new InvalidArgumentError('Write a whole number of tokens, such as 500000.');
}

/** Signals apart by commas. */
function signals(text: string): Signal[] {
  const words = text.split(',').map((word) => word.trim());
  const known = SIGNALS.filter((signal) => words.includes(signal));
  if (words.every((word) => (SIGNALS as readonly string[]).includes(word))) return known;
  throw new InvalidArgumentError(`Write some of ${SIGNALS.join(', ')}, with commas.`);
}

/** Options of every command about the files of a client. */
function addFiles(command: Command): Command {
  return command
    .addOption(baseUrl())
    .option(
      '--profile <name>',
      'names of files, keys and variables: shipped for claude, codex and grok, or a file; else neutral',
    )
    .addOption(
      new Option(
        '--managed [system]',
        'the file for every user of a machine, to be rolled out: linux, macos or windows; else that of this machine',
      ).choices([...PLATFORMS]),
    )
    .option('--write', 'write without asking')
    .addOption(new Option('--print', 'print the whole files, credentials hidden, and write nothing').conflicts('write'))
    .addOption(json('print a JSON object with what was done'));
}

function addCommon(command: Command): Command {
  return addFiles(command)
    .option('--api-key-env <name>', 'name of the environment variable that holds the token, never the token itself')
    .option('--api-key <token>', 'the token itself; others on this machine may see it, unlike with --token-stdin')
    .option('--token-stdin', "read the token from standard input, for the user's own file")
    .option('--key-helper', 'let the client run this program for its token, as the person who signed in')
    .option('--appscli <path>', 'what the key helper runs; else this program, with --managed the appscli on the PATH')
    .addOption(
      new Option(
        '--telemetry [signals]',
        'let the client send its telemetry to the gateway: metrics,logs or also traces',
      )
        .argParser(signals)
        .preset('metrics,logs'),
    )
    .option('--no-telemetry', 'take that away again; without either it stays as it is')
    .option('--check', 'ask the gateway first whether it has the model for this token');
}

const window = (otherwise: string) =>
  new Option(
    '--context-window <tokens>',
    `window of the model; else what the gateway says, else ${otherwise}`,
  ).argParser(contextWindow);

/** `appscli client build-cli|coding-cli|messages`. */
export function addClient(program: Command, context: CommandContext, finish: Finish): void {
  const client = program
    .command('client')
    .description('set up a coding client for a gateway: its files and variables')
    .helpCommand(false)
    .addHelpText(
      'after',
      `
Shows what would change in the client's files, asks, keeps a backup and leaves
everything else in them as it is. Exits 1 when there is something to write and
it was not written.
${examples('appscli client build-cli --base-url https://gw.example.com --model coder-1', 'appscli client coding-cli --model coder-1 --token-stdin --write < token.txt', 'eval "$(appscli client messages --model coder-1)"')}`,
    );
  addBuildCli(client, context, finish);
  addCodingCli(client, context, finish);
  addMessages(client, context, finish);
  addRemove(client, context, finish);
}

async function load() {
  const [commands, { processInput }] = await Promise.all([import('./client.ts'), import('./client-write.ts')]);
  return { ...commands, surroundings: { input: processInput() } };
}

function addRemove(client: Command, context: CommandContext, finish: Finish): void {
  addFiles(client.command('remove').description("take what belongs to a gateway out of a client's files again"))
    .addArgument(new Argument('<client>').choices(['messages', 'build-cli', 'coding-cli']))
    .addHelpText('after', examples('appscli client remove messages --base-url https://gateway.example.com'))
    .action(async (kind, given) => {
      const { removeClient, surroundings } = await load();
      finish(await removeClient(context, kind, given, surroundings));
    });
}

function setUp(client: Command, context: CommandContext, finish: Finish, kind: ClientKind, about: string): Command {
  return addCommon(client.command(kind).description(about)).action(async (given) => {
    const { setUpClient, surroundings } = await load();
    finish(await setUpClient(context, kind, given, surroundings));
  });
}

function addBuildCli(client: Command, context: CommandContext, finish: Finish): void {
  setUp(client, context, finish, 'build-cli', 'set up the build CLI (chat completions)')
    .requiredOption('--model <id>', 'model at the gateway', oneLine)
    .option('--alias <name>', 'name of the entry in the file; else made from the model')
    .option('--display-name <text>', 'what the client shows; else the provider name or the model', oneLine)
    .option('--provider-name <text>', 'what the client shows without --display-name', oneLine)
    .addOption(window('200000'))
    .addHelpText(
      'after',
      `
The entry becomes the default of the client. Without --token-stdin or --api-key
the client reads its token from the variable RELAY_API_KEY, or the one you name.
${examples('appscli client build-cli --base-url https://gw.example.com --model coder-1', 'appscli client build-cli --model coder-1 --api-key-env GATEWAY_TOKEN --write')}`,
    );
}

function addCodingCli(client: Command, context: CommandContext, finish: Finish): void {
  setUp(client, context, finish, 'coding-cli', 'set up the coding CLI (Responses)')
    .requiredOption('--model <id>', 'model at the gateway', oneLine)
    .option('--provider-name <text>', 'what the client calls the gateway', oneLine)
    .addOption(window('200000'))
    .addHelpText(
      'after',
      `
The client shortens its conversation at 95 % of the window. The token goes into
its own file, unless --api-key-env names a variable that holds it.
${examples('appscli client coding-cli --base-url https://gw.example.com --model coder-1', 'appscli client coding-cli --model coder-1 --token-stdin --write < token.txt')}`,
    );
}

function addMessages(client: Command, context: CommandContext, finish: Finish): void {
  setUp(client, context, finish, 'messages', 'set up the Messages client')
    .option('--model <id>', 'fixed model, also of each tier that is not named', oneLine)
    .option('--opus-model <id>', 'model of the tier opus', oneLine)
    .option('--sonnet-model <id>', 'model of the tier sonnet', oneLine)
    .option('--haiku-model <id>', 'model of the tier haiku', oneLine)
    .option('--fable-model <id>', 'model of the tier fable', oneLine)
    .addOption(window('what the client assumes'))
    .option('--discovery', 'let the client ask the gateway which models there are')
    .option('--cache-1h', 'let the client ask for prompts to be kept for an hour')
    .option('--sign-in', 'let people sign in at the gateway, as the client itself does it; no token is needed')
    .option('--settings', "put the variables into the client's settings instead of printing lines for a shell")
    .addOption(new Option('--shell <name>', 'shell to print lines for').choices([...SHELLS]))
    .addHelpText(
      'after',
      `
Prints lines for your shell. --settings, --write, --token-stdin, --api-key,
--sign-in, --key-helper and --managed are about its settings file instead.
With --sign-in the client signs in at the gateway by itself and renews what it
is given; with --key-helper it runs this program for each token.
${examples('eval "$(appscli client messages --base-url https://gateway.example.com)"', 'appscli client messages --model coder-1 --discovery --cache-1h --settings', 'appscli client messages --sign-in', 'appscli client messages --key-helper --managed macos > managed-settings.json')}`,
    );
}
