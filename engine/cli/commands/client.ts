import { type Command, InvalidArgumentError, Option } from 'commander';
import { SHELLS } from '../../client-files/shell-lines.ts';
import { isPrintableLine } from '../../diagnostics/printable.ts';
import type { CommandContext } from '../program.ts';
import { baseUrl, examples, json, notEmpty } from './options.ts';

type Finish = (exit_code: number) => void;

/** Tokens of the long-context models that clients are set up for. */
const CONTEXT_WINDOW = 500_000;

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

/** The options that every client has. */
function addCommon(command: Command): Command {
  return command
    .addOption(baseUrl())
    .option('--api-key-env <name>', 'name of the environment variable that holds the token, never the token itself')
    .option('--api-key <token>', 'the token itself; others on this machine may see it, unlike with --token-stdin')
    .option('--token-stdin', "read the token from standard input, for the user's own file")
    .option('--profile <file>', "names of a vendor's files, keys and variables; without it, neutral ones")
    .option('--check', 'ask the gateway first whether it has the model for this token')
    .option('--write', 'write without asking')
    .addOption(new Option('--print', 'print the whole files, credentials hidden, and write nothing').conflicts('write'))
    .addOption(json('print a JSON object with what was done'));
}

const window = () =>
  new Option('--context-window <tokens>', 'window of the model').default(CONTEXT_WINDOW).argParser(contextWindow);

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
}

async function load() {
  const [commands, { processInput }] = await Promise.all([import('../client.ts'), import('../client-input.ts')]);
  return { ...commands, surroundings: { input: processInput() } };
}

function addBuildCli(client: Command, context: CommandContext, finish: Finish): void {
  addCommon(client.command('build-cli').description('set up the build CLI (chat completions)'))
    .requiredOption('--model <id>', 'model at the gateway', oneLine)
    .option('--alias <name>', 'name of the entry in the file; else made from the model')
    .option('--display-name <text>', 'what the client shows; else the provider name or the model', oneLine)
    .option('--provider-name <text>', 'what the client shows without --display-name', oneLine)
    .addOption(window())
    .addHelpText(
      'after',
      `
The entry becomes the default of the client. Without --token-stdin or --api-key
the client reads its token from the variable RELAY_API_KEY, or the one you name.
${examples('appscli client build-cli --base-url https://gw.example.com --model coder-1', 'appscli client build-cli --model coder-1 --api-key-env GATEWAY_TOKEN --write')}`,
    )
    .action(async (given) => {
      const { buildCli, surroundings } = await load();
      finish(await buildCli(context, given, surroundings));
    });
}

function addCodingCli(client: Command, context: CommandContext, finish: Finish): void {
  addCommon(client.command('coding-cli').description('set up the coding CLI (Responses)'))
    .requiredOption('--model <id>', 'model at the gateway', oneLine)
    .option('--provider-name <text>', 'what the client calls the gateway', oneLine)
    .addOption(window())
    .addHelpText(
      'after',
      `
The client shortens its conversation at 95 % of the window. The token goes into
its own file, unless --api-key-env names a variable that holds it.
${examples('appscli client coding-cli --base-url https://gw.example.com --model coder-1', 'appscli client coding-cli --model coder-1 --token-stdin --write < token.txt')}`,
    )
    .action(async (given) => {
      const { codingCli, surroundings } = await load();
      finish(await codingCli(context, given, surroundings));
    });
}

function addMessages(client: Command, context: CommandContext, finish: Finish): void {
  addCommon(client.command('messages').description('set up the Messages client'))
    .option('--model <id>', 'fixed model', oneLine)
    .option('--opus-model <id>', 'model of the tier opus', oneLine)
    .option('--sonnet-model <id>', 'model of the tier sonnet', oneLine)
    .option('--haiku-model <id>', 'model of the tier haiku', oneLine)
    .option('--fable-model <id>', 'model of the tier fable', oneLine)
    .option('--discovery', 'let the client ask the gateway which models there are')
    .option('--cache-1h', 'let the client ask for prompts to be kept for an hour')
    .option('--settings', "put the variables into the client's settings instead of printing lines for a shell")
    .addOption(new Option('--shell <name>', 'shell to print lines for').choices([...SHELLS]))
    .addHelpText(
      'after',
      `
Prints lines for your shell. --settings, --write, --token-stdin and --api-key
are about the client's settings file instead.
${examples('eval "$(appscli client messages --base-url https://gateway.example.com)"', 'appscli client messages --model coder-1 --discovery --cache-1h --settings')}`,
    )
    .action(async (given) => {
      const { messages, surroundings } = await load();
      finish(await messages(context, given, surroundings));
    });
}
