import { failed, ok } from '../../../base/contract/checks.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { runProgram } from '../../../base/kit/process/run-program.ts';
import { credentialsPath, parseCredentials } from '../../client/credentials.ts';
import { HELPER_WAIT_SECONDS } from '../../client-files/key-helper.ts';
import type { Connection, Desk, Diagnosis, HelperCommand } from '../desk.ts';
import { examineRights } from './sources.ts';

const NAMED = { id: 'sign_in', title: 'sign-in of appscli' };

/** What a person holds of `appscli login` for a gateway, and what is wrong with it. Asks nobody. */
export function examineSignIn(
  desk: Desk,
  root_url: string,
): { readonly token: string | undefined; readonly diagnoses: readonly Diagnosis[] } {
  const path = credentialsPath(desk.env);
  const again = `appscli login --base-url ${root_url}`;
  const at = { ...NAMED, where: path };
  const wrong = (found: string, remedy = again) => ({ token: undefined, diagnoses: [failed(found, remedy, at)] });
  try {
    const text = desk.read(path);
    const held = text === undefined ? undefined : parseCredentials(text, path).get(root_url);
    if (held === undefined) return wrong(`nobody is signed in at ${root_url} here`);
    const rights = examineRights(desk, path, NAMED);
    const left_ms = Date.parse(held.expires_at) - desk.now();
    if (left_ms > 0) {
      const good = ok(`good for ${Math.ceil(left_ms / 60_000)} more minutes`, at);
      return { token: held.access_token, diagnoses: [good, ...rights] };
    }
    const is_renewed = held.refresh_token !== undefined;
    const found = is_renewed
      ? ok('expired, to be renewed at the next use', at)
      : failed(`it expired at ${held.expires_at}, and can't be renewed`, again, at);
    return { token: undefined, diagnoses: [found, ...rights] };
  } catch (error) {
    if (error instanceof StartError) return wrong(error.message, `move ${path} away, then ${again}`);
    throw error;
  }
}

const BYTES_MAX = 64 * 1024;

/** What came of running the command that prints a client's credential. Nothing it printed is shown. */
export interface TriedHelper {
  readonly diagnosis: Diagnosis;
  readonly token: string | undefined;
}

/** Runs the command that prints a client's credential, as the client does, within bounds. */
export async function tryHelper(
  { env }: Pick<Desk, 'env'>,
  { client, helper }: Pick<Connection, 'client'> & { readonly helper: HelperCommand },
  seconds = HELPER_WAIT_SECONDS,
): Promise<TriedHelper> {
  const named = { id: `${client.replaceAll('-', '_')}.key_helper`, title: 'key helper', where: helper.where };
  const wrong = (found: string, remedy = RUN_IT): TriedHelper => ({
    diagnosis: failed(found, remedy, named),
    token: undefined,
  });
  const { ending, exit_code, stdout } = await runProgram({
    command: helper.command,
    env,
    seconds,
    bytes_max: BYTES_MAX,
  });
  if (ending === 'no_start' && 'line' in helper.command)
    return wrong('no shell can run it: it is too long, or holds a character that no command can');
  if (ending === 'no_start' || exit_code === 127)
    return wrong('there is no such program', 'name one that is there, with its whole path: appscli client writes it');
  if (ending === 'too_late') return wrong(`it was not done after ${seconds} seconds`);
  if (ending === 'too_large') return wrong('it prints far more than a token');
  if (exit_code === 126) return wrong('it may not be run', 'make it executable: chmod +x');
  if (exit_code !== 0)
    return wrong(exit_code === undefined ? 'it was ended by a signal' : `it ended with exit code ${exit_code}`);
  const token = stdout.trim();
  if (token === '') return wrong('it printed nothing');
  if (/\s/.test(token))
    return wrong('it printed more than one word, where the client expects a token and nothing else');
  if (!/^[\x21-\x7e]+$/.test(token)) return wrong('what it printed holds a character that no HTTP header can carry');
  return { diagnosis: ok('it prints a token', named), token };
}

const RUN_IT = 'run it by hand to see what it says: it has to print the token, a line break and nothing else';
