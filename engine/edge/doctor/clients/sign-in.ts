import { failed, ok } from '../../../base/contract/checks.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { runProgram } from '../../../base/kit/process/run-program.ts';
import { credentialsPath, parseCredentials } from '../../client/credentials.ts';
import { HELPER_WAIT_SECONDS } from '../../client-files/key-helper.ts';
import type { Connection, Diagnosis, HelperCommand, Workstation } from '../workstation.ts';
import { checkFileMode, idOf } from './sources.ts';

const NAMED = { id: 'sign_in', title: 'sign-in of appscli' };

/** Checks the stored credentials of `appscli login` for a gateway. Sends no requests. */
export function checkSignIn(workstation: Workstation, root_url: string) {
  const path = credentialsPath(workstation.env);
  const again = `appscli login --base-url ${root_url}`;
  const at = { ...NAMED, where: path };
  const wrong = (found: string, remedy = again) => ({ token: undefined, diagnoses: [failed(found, remedy, at)] });
  try {
    const text = workstation.read(path);
    const stored = text === undefined ? undefined : parseCredentials(text, path).get(root_url);
    if (stored === undefined) return wrong(`not signed in at ${root_url} here`);
    const rights = checkFileMode(workstation, path, NAMED);
    const left_ms = Date.parse(stored.expires_at) - workstation.now();
    if (left_ms > 0) {
      const good = ok(`valid for ${Math.ceil(left_ms / 60_000)} more minutes`, at);
      return { token: stored.access_token, diagnoses: [good, ...rights] };
    }
    const is_renewed = stored.refresh_token !== undefined;
    const found = is_renewed
      ? ok('expired; renewed at the next use', at)
      : failed(`expired at ${stored.expires_at}, and cannot be renewed`, again, at);
    return { token: undefined, diagnoses: [found, ...rights] };
  } catch (error) {
    if (error instanceof StartError) return wrong(error.message, `move ${path} away, then ${again}`);
    throw error;
  }
}

const BYTES_MAX = 64 * 1024;

/** Runs a client's key helper as the client does, with limits on time and output. */
export async function tryHelper(
  { env }: Pick<Workstation, 'env'>,
  { client, helper }: Pick<Connection, 'client'> & { readonly helper: HelperCommand },
  seconds = HELPER_WAIT_SECONDS,
): Promise<{ readonly diagnosis: Diagnosis; readonly token: string | undefined }> {
  const named = { id: idOf(client, 'key_helper'), title: 'key helper', where: helper.where };
  const wrong = (found: string, remedy = RUN_IT) => ({ diagnosis: failed(found, remedy, named), token: undefined });
  const { ending, exit_code, stdout } = await runProgram({
    command: helper.command,
    env,
    seconds,
    bytes_max: BYTES_MAX,
  });
  if (ending === 'no_start' && 'line' in helper.command)
    return wrong('no shell can run it: it is too long, or contains an invalid character');
  if (ending === 'no_start' || exit_code === 127)
    return wrong('program not found', 'configure its absolute path: appscli client writes it');
  if (ending === 'too_late') return wrong(`timed out after ${seconds} seconds`);
  if (ending === 'too_large') return wrong('its output is far longer than a token');
  if (exit_code === 126) return wrong('not executable', 'make it executable: chmod +x');
  if (exit_code !== 0) return wrong(exit_code === undefined ? 'killed by a signal' : `exited with code ${exit_code}`);
  const token = stdout.trim();
  if (token === '') return wrong('no output');
  if (/\s/.test(token)) return wrong('it printed more than one word; the client expects only a token');
  if (!/^[\x21-\x7e]+$/.test(token)) return wrong('its output contains a character that HTTP headers cannot carry');
  return { diagnosis: ok('it prints a token', named), token };
}

const RUN_IT = 'run it by hand: it must print the token, a line break and nothing else';
