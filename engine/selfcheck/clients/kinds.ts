import { planBuildCli } from '../../client-files/build-cli.ts';
import { planCodingCli } from '../../client-files/coding-cli.ts';
import type { Draft } from '../../client-files/draft.ts';
import { type ClientPlatform, platformOf } from '../../client-files/key-helper.ts';
import { credentialVariable, planMessages, TIERS } from '../../client-files/messages.ts';
import type { ClientNames } from '../../client-files/names.ts';
import type { Protocol } from '../../contract/protocol.ts';
import type { TokensUsed } from '../check.ts';

/** What a client is told for a single run. */
interface RunWish {
  readonly root_url: string;
  readonly model: string;
  readonly names: ClientNames;
}

/** A kind of coding client, and how it is run once. */
export interface RunnableClient {
  /** Of its check. */
  readonly id: string;
  /** How the command of `doctor` calls it. */
  readonly kind: 'messages' | 'coding-cli' | 'build-cli';
  readonly title: string;
  /** What it speaks. */
  readonly api: Protocol;
  /** About what one run was seen to use, twice over: it is the client who decides. */
  readonly uses: TokensUsed;
  /** Its program, as it is found on the PATH. */
  program(names: ClientNames): string;
  /** Files of the machine that win over those of a person; `undefined` where there are none on this system. */
  managedFile(names: ClientNames): string | undefined;
  /** The variable it gets the token from. */
  tokenVariable(names: ClientNames): string;
  /**
   * Arguments of a run that prints one reply and ends, with no tool that runs commands or reads and writes files: whoever
   * answers could have the client do that here. A version without these options refuses them.
   */
  args(prompt: string): readonly string[];
  /** Its files below the home directory that is given. */
  files(wish: RunWish, home: (path: string) => string): readonly Draft[];
}

/** For clients that are told the name of a variable. */
const TOKEN_VARIABLE = 'APPSCLI_SELFCHECK_TOKEN';
const CONTEXT_WINDOW = 200_000;

const nothing = () => undefined;
const onThisSystem = (files: Readonly<Partial<Record<ClientPlatform, string>>>) => files[platformOf(process.platform)];

/** The kinds of clients, in the order in which they are run. */
export const RUNNABLE_CLIENTS: readonly RunnableClient[] = [
  {
    id: 'clients.messages',
    kind: 'messages',
    title: 'A single run of the Messages client',
    api: 'messages',
    uses: { requests: 3, input: 30_000, output: 1000 },
    program: ({ messages }) => messages.program,
    managedFile: ({ messages }) => onThisSystem(messages.managed_file),
    tokenVariable: ({ messages }) => credentialVariable(messages),
    args: (prompt) => ['-p', prompt, '--tools', ''],
    files: ({ root_url, model, names }, home) =>
      planMessages(
        {
          root_url,
          model,
          credential: { variable: credentialVariable(names.messages) },
          tiers: Object.fromEntries(TIERS.map((tier) => [tier, model])),
          discovery: false,
          cache_1h: false,
          telemetry: [],
        },
        names.messages,
        { path: home(names.messages.settings_file), platform: platformOf(process.platform), read: nothing },
      ).drafts,
  },
  {
    id: 'clients.coding_cli',
    kind: 'coding-cli',
    title: 'A single run of the coding CLI',
    api: 'responses',
    uses: { requests: 3, input: 25_000, output: 1000 },
    program: ({ coding_cli }) => coding_cli.program,
    managedFile: ({ coding_cli }) => onThisSystem(coding_cli.managed_file),
    tokenVariable: () => TOKEN_VARIABLE,
    args: (prompt) => [
      'exec',
      '--skip-git-repo-check',
      ...['shell_tool', 'unified_exec', 'view_image'].flatMap((tool) => ['--disable', tool]),
      prompt,
    ],
    files: ({ root_url, model, names }, home) =>
      planCodingCli(
        {
          root_url,
          model,
          credential: { variable: TOKEN_VARIABLE },
          provider_name: 'selfcheck',
          context_window: CONTEXT_WINDOW,
          telemetry: [],
        },
        names.coding_cli,
        { config: home(names.coding_cli.config_file), auth: home(names.coding_cli.auth_file), read: nothing },
      ).drafts,
  },
  {
    id: 'clients.build_cli',
    kind: 'build-cli',
    title: 'A single run of the build CLI',
    api: 'chat',
    uses: { requests: 5, input: 60_000, output: 2000 },
    program: ({ build_cli }) => build_cli.program,
    managedFile: ({ build_cli }) => onThisSystem(build_cli.managed_file),
    tokenVariable: () => TOKEN_VARIABLE,
    // An empty list of tools would mean all of them.
    args: (prompt) => ['-p', prompt, '--tools', 'todo_write', '--deny', '*'],
    files: ({ root_url, model, names }, home) =>
      planBuildCli(
        {
          root_url,
          model,
          credential: { variable: TOKEN_VARIABLE },
          alias: 'selfcheck',
          display_name: 'selfcheck',
          context_window: CONTEXT_WINDOW,
          telemetry: [],
        },
        names.build_cli,
        { path: home(names.build_cli.config_file), read: nothing },
      ).drafts,
  },
];
