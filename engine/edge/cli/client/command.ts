import { InvalidArgumentError, Option } from 'commander';
import { SIGNALS, type Signal } from '../../../base/contract/client-telemetry.ts';
import { isPrintableLine } from '../../../base/kit/text/printable.ts';
import type { ClientKind } from '../../client-files/clients.ts';
import { PLATFORMS } from '../../client-files/key-helper.ts';
import { SHELLS } from '../../client-files/shell-lines.ts';
import type { CommandRow } from '../commands.ts';
import { baseUrl, choice, json, notEmpty, numberThat, option, required, textThat } from '../options.ts';
import { type RemoveOptions, removeClient, type SetUpOptions, setUpClient } from './client.ts';
import { processInput } from './client-write.ts';

const CONTEXT_WINDOW_MIN = 1000;
const CONTEXT_WINDOW_MAX = 100_000_000;

/** A text for a client's file: no line breaks, nothing a terminal acts upon. */
const oneLine = (text: string) =>
  notEmpty(textThat((line) => isPrintableLine(line) && line.length <= 300, 'Write one line of text.')(text));

const contextWindow = numberThat(
  /^\d{1,9}$/,
  'Write a whole number of tokens, such as 500000.',
  (tokens) => tokens >= CONTEXT_WINDOW_MIN && tokens <= CONTEXT_WINDOW_MAX,
);

/** Signals apart by commas. */
function signals(text: string): Signal[] {
  const words = text.split(',').map((word) => word.trim());
  const known = SIGNALS.filter((signal) => words.includes(signal));
  if (words.every((word) => (SIGNALS as readonly string[]).includes(word))) return known;
  throw new InvalidArgumentError(`Write some of ${SIGNALS.join(', ')}, with commas.`);
}

/** Options of every command about the files of a client. */
const FILES = [
  baseUrl(),
  option(
    '--profile <name>',
    'names of files, keys and variables: shipped for claude, codex and grok, or a file; else neutral',
  ),
  choice(
    '--managed [system]',
    'the file for every user of a machine, to be rolled out: linux, macos or windows; else that of this machine',
    PLATFORMS,
  ),
  option('--write', 'write without asking'),
  option('--print', 'print the whole files, credentials hidden, and write nothing').conflicts('write'),
  json('print a JSON object with what was done'),
];

const COMMON = [
  ...FILES,
  option('--api-key-env <name>', 'name of the environment variable that holds the token, never the token itself'),
  option('--api-key <token>', 'the token itself; others on this machine may see it, unlike with --token-stdin'),
  option('--token-stdin', "read the token from standard input, for the user's own file"),
  option('--key-helper', 'let the client run this program for its token, as the person who signed in'),
  option('--appscli <path>', 'what the key helper runs; else this program, with --managed the appscli on the PATH'),
  new Option('--telemetry [signals]', 'let the client send its telemetry to the gateway: metrics,logs or also traces')
    .argParser(signals)
    .preset('metrics,logs'),
  option('--no-telemetry', 'take that away again; without either it stays as it is'),
  option('--check', 'ask the gateway first whether it has the model for this token'),
];

const model = () => required('--model <id>', 'model at the gateway', oneLine);
const window = (otherwise: string) =>
  option(
    '--context-window <tokens>',
    `window of the model; else what the gateway says, else ${otherwise}`,
    contextWindow,
  );

const setUp = (name: ClientKind, row: Omit<CommandRow, 'name' | 'run'>): CommandRow => ({
  ...row,
  name,
  options: [...COMMON, ...row.options!],
  run: (context, given: SetUpOptions) => setUpClient(context, name, given, { input: processInput() }),
});

/** Told of all of them together. */
export const notes = `Shows what would change in the client's files, asks, keeps a backup and leaves
everything else in them as it is. Exits 1 when there is something to write and
it was not written.`;

/** The same. */
export const group_examples = [
  'appscli client build-cli --base-url https://gw.example.com --model coder-1',
  'appscli client coding-cli --model coder-1 --token-stdin --write < token.txt',
  'eval "$(appscli client messages --model coder-1)"',
];

/** `appscli client`. */
export const commands: readonly CommandRow[] = [
  setUp('build-cli', {
    about: 'set up the build CLI (chat completions)',
    options: [
      model(),
      option('--alias <name>', 'name of the entry in the file; else made from the model'),
      option('--display-name <text>', 'what the client shows; else the provider name or the model', oneLine),
      option('--provider-name <text>', 'what the client shows without --display-name', oneLine),
      window('200000'),
    ],
    notes: `The entry becomes the default of the client. Without --token-stdin or --api-key
the client reads its token from the variable RELAY_API_KEY, or the one you name.`,
    examples: [
      'appscli client build-cli --base-url https://gw.example.com --model coder-1',
      'appscli client build-cli --model coder-1 --api-key-env GATEWAY_TOKEN --write',
    ],
  }),
  setUp('coding-cli', {
    about: 'set up the coding CLI (Responses)',
    options: [
      model(),
      option('--provider-name <text>', 'what the client calls the gateway', oneLine),
      window('200000'),
    ],
    notes: `The client shortens its conversation at 95 % of the window. The token goes into
its own file, unless --api-key-env names a variable that holds it.`,
    examples: [
      'appscli client coding-cli --base-url https://gw.example.com --model coder-1',
      'appscli client coding-cli --model coder-1 --token-stdin --write < token.txt',
    ],
  }),
  setUp('messages', {
    about: 'set up the Messages client',
    options: [
      option('--model <id>', 'fixed model, also of each tier that is not named', oneLine),
      ...['opus', 'sonnet', 'haiku', 'fable'].map((tier) =>
        option(`--${tier}-model <id>`, `model of the tier ${tier}`, oneLine),
      ),
      window('what the client assumes'),
      option('--discovery', 'let the client ask the gateway which models there are'),
      option('--cache-1h', 'let the client ask for prompts to be kept for an hour'),
      option('--sign-in', 'let people sign in at the gateway, as the client itself does it; no token is needed'),
      option('--settings', "put the variables into the client's settings instead of printing lines for a shell"),
      choice('--shell <name>', 'shell to print lines for', SHELLS),
    ],
    notes: `Prints lines for your shell. --settings, --write, --token-stdin, --api-key,
--sign-in, --key-helper and --managed are about its settings file instead.
With --sign-in the client signs in at the gateway by itself and renews what it
is given; with --key-helper it runs this program for each token.`,
    examples: [
      'eval "$(appscli client messages --base-url https://gateway.example.com)"',
      'appscli client messages --model coder-1 --discovery --cache-1h --settings',
      'appscli client messages --sign-in',
      'appscli client messages --key-helper --managed macos > managed-settings.json',
    ],
  }),
  {
    name: 'remove',
    about: "take what belongs to a gateway out of a client's files again",
    arguments: [['<client>', '', ['messages', 'build-cli', 'coding-cli']]],
    options: FILES,
    examples: ['appscli client remove messages --base-url https://gateway.example.com'],
    run: (context, given: RemoveOptions & { readonly client: ClientKind }) =>
      removeClient(context, given.client, given, { input: processInput() }),
  },
];
