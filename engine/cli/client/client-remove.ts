import { removeBuildCli } from '../../client-files/build-cli.ts';
import { removeCodingCli } from '../../client-files/coding-cli.ts';
import type { ClientPlan } from '../../client-files/draft.ts';
import { removeMessages } from '../../client-files/messages.ts';
import { pathOfFile } from '../../client-files/names.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { planned } from './client.ts';
import type { Input } from './client-input.ts';
import { locationOf } from './client-location.ts';
import { type ClientKind, type ClientOptions, namesOf, rootUrl } from './client-options.ts';
import { offerDrafts } from './client-write.ts';

/** Options of `appscli client remove`. */
export type RemoveOptions = Pick<ClientOptions, 'baseUrl' | 'profile' | 'managed' | 'write' | 'print' | 'json'>;

/** `appscli client remove`: takes what belongs to a gateway out of a client's files, and nothing else. */
export async function removeClient(
  context: CommandContext,
  client: ClientKind,
  given: RemoveOptions,
  { input }: { readonly input: Input },
): Promise<number> {
  const root_url = rootUrl(given.baseUrl, context.env);
  const { drafts } = planned(() => planRemoval(client, root_url, given, context.env));
  if (drafts.length === 0) {
    context.terminal.info(`The files of the client say nothing of ${root_url}.\n`);
    return EXIT_OK;
  }
  const { write, print, json } = given;
  return offerDrafts(context, drafts, {
    ...(write && { write }),
    ...(print && { print }),
    ...(json && { json }),
    input,
    token: undefined,
    facts: { client, base_url: root_url },
  });
}

function planRemoval(client: ClientKind, root_url: string, given: RemoveOptions, env: NodeJS.ProcessEnv): ClientPlan {
  const { messages, build_cli, coding_cli } = namesOf(given.profile);
  if (client === 'messages') {
    return removeMessages(root_url, messages, locationOf(given, { ...messages, file: messages.settings_file }, env));
  }
  if (client === 'build-cli') {
    return removeBuildCli(root_url, locationOf(given, { ...build_cli, file: build_cli.config_file }, env));
  }
  const { path: config, read } = locationOf(given, { ...coding_cli, file: coding_cli.config_file }, env);
  const auth =
    given.managed === undefined ? pathOfFile(coding_cli.auth_file, env, coding_cli.folder_variable) : undefined;
  return removeCodingCli(root_url, coding_cli, { config, auth, read });
}
