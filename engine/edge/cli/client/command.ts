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

/** A text for a client's file: one line without control characters. */
const oneLine = (text: string) =>
  notEmpty(textThat((line) => isPrintableLine(line) && line.length <= 300, 'Expected one line of text.')(text));

const contextWindow = numberThat(
  /^\d{1,9}$/,
  'Expected a whole number of tokens, such as 500000.',
  (tokens) => tokens >= CONTEXT_WINDOW_MIN && tokens <= CONTEXT_WINDOW_MAX,
);

/** Parses signals separated by commas. */
function signals(text: string): Signal[] {
  const words = text.split(',').map((word) => word.trim());
  const known = SIGNALS.filter((signal) => words.includes(signal));
  if (words.every((word) => (SIGNALS as readonly string[]).includes(word))) return known;
  throw new InvalidArgumentError(`Expected some of ${SIGNALS.join(', ')}, separated by commas.`);
}

/** Options of all commands for client files. */
const FILES = [
  baseUrl(),
  option(
    '--profile <name>',
    'names of files, keys and variables: shipped (claude, codex, grok) or a file (default: neutral)',
  ),
  choice(
    '--managed [system]',
    'managed file for all users of a machine: linux, macos or windows (default: this system)',
    PLATFORMS,
  ),
  option('--write', 'write without asking'),
  option('--print', 'print the complete files with masked credentials, and write nothing').conflicts('write'),
  json('print a JSON object with the changes'),
];

const COMMON = [
  ...FILES,
  option('--api-key-env <name>', 'environment variable with the token'),
  option('--api-key <token>', 'the token itself; visible to other users, prefer --token-stdin'),
  option('--token-stdin', 'read the token from standard input'),
  option('--key-helper', 'let the client run `appscli token`, with your sign-in'),
  option('--appscli <path>', 'program of the key helper (default: this one; with --managed: appscli on the PATH)'),
  new Option('--telemetry [signals]', 'send telemetry to the gateway: metrics, logs, traces (default: metrics,logs)')
    .argParser(signals)
    .preset('metrics,logs'),
  option('--no-telemetry', 'stop sending telemetry (default: no change)'),
  option('--check', 'check token and model at the gateway first'),
];

const model = () => required('--model <id>', 'model at the gateway', oneLine);
const window = (otherwise: string) =>
  option(
    '--context-window <tokens>',
    `context window of the model (default: by the gateway, else ${otherwise})`,
    contextWindow,
  );

const setUp = (name: ClientKind, row: Omit<CommandRow, 'name' | 'run'>): CommandRow => ({
  ...row,
  name,
  options: [...COMMON, ...row.options!],
  run: (context, options: SetUpOptions) => setUpClient(context, name, options, { input: processInput() }),
});

/** Notes of the group. */
export const notes = `Shows the changes to the client's files, asks, makes backups, and keeps all
other settings. Exits 1 if changes were not written.`;

/** Examples of the group. */
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
      option('--alias <name>', 'name of the entry in the file (default: from the model)'),
      option('--display-name <text>', 'name that the client shows (default: provider name or model)', oneLine),
      option('--provider-name <text>', 'name that the client shows without --display-name', oneLine),
      window('200000'),
    ],
    notes: `The entry becomes the default model. Without --token-stdin and --api-key the
client reads its token from the variable RELAY_API_KEY, or from --api-key-env.`,
    examples: [
      'appscli client build-cli --base-url https://gw.example.com --model coder-1',
      'appscli client build-cli --model coder-1 --api-key-env GATEWAY_TOKEN --write',
    ],
  }),
  setUp('coding-cli', {
    about: 'set up the coding CLI (Responses)',
    options: [
      model(),
      option('--provider-name <text>', 'name of the gateway in the client', oneLine),
      window('200000'),
    ],
    notes: `The client compacts its conversation at 95 % of the window. The token is
stored in a separate file, unless --api-key-env is set.`,
    examples: [
      'appscli client coding-cli --base-url https://gw.example.com --model coder-1',
      'appscli client coding-cli --model coder-1 --token-stdin --write < token.txt',
    ],
  }),
  setUp('messages', {
    about: 'set up the Messages client',
    options: [
      option('--model <id>', 'main model, also for tiers without their own', oneLine),
      ...['opus', 'sonnet', 'haiku', 'fable'].map((tier) =>
        option(`--${tier}-model <id>`, `model of tier ${tier}`, oneLine),
      ),
      window('the default of the client'),
      option('--discovery', 'let the client read the model list of the gateway'),
      option('--cache-1h', 'let the client use the one-hour prompt cache'),
      option('--sign-in', "use the client's own sign-in at the gateway; needs no token"),
      option('--settings', "write the client's settings file instead of printing shell lines"),
      choice('--shell <name>', 'shell to print lines for', SHELLS),
    ],
    notes: `Prints shell lines by default. --settings, --write, --token-stdin, --api-key,
--sign-in, --key-helper and --managed use its settings file instead. With
--sign-in the client itself signs in and renews its token; with --key-helper it
runs this program for each token.`,
    examples: [
      'eval "$(appscli client messages --base-url https://gateway.example.com)"',
      'appscli client messages --model coder-1 --discovery --cache-1h --settings',
      'appscli client messages --sign-in',
      'appscli client messages --key-helper --managed macos > managed-settings.json',
    ],
  }),
  {
    name: 'remove',
    about: "remove a gateway's settings from a client's files",
    arguments: [['<client>', 'the client', ['messages', 'build-cli', 'coding-cli']]],
    options: FILES,
    examples: ['appscli client remove messages --base-url https://gateway.example.com'],
    run: (context, options: RemoveOptions & { readonly client: ClientKind }) =>
      removeClient(context, options.client, options, { input: processInput() }),
  },
];
