import { credentialsPath } from '../../client/credentials.ts';
import { parseCredentials } from '../../client/credentials-text.ts';
import { StartError } from '../../contract/start-error.ts';
import type { Desk } from '../desk.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { examineRights } from './client-file.ts';

const NAMED = { id: 'sign_in', title: 'sign-in of appscli' };

/** What a person holds of `appscli login` for a gateway, and what is wrong with it. Asks nobody. */
export function examineSignIn(
  desk: Desk,
  root_url: string,
): { readonly token: string | undefined; readonly diagnoses: readonly Diagnosis[] } {
  const path = credentialsPath(desk.env);
  const again = `appscli login --base-url ${root_url}`;
  const failed = (found: string, remedy = again): ReturnType<typeof examineSignIn> => ({
    token: undefined,
    diagnoses: [{ ...NAMED, verdict: 'failed', where: path, found, remedy }],
  });
  try {
    const text = desk.read(path);
    const held = text === undefined ? undefined : parseCredentials(text, path).get(root_url);
    if (held === undefined) return failed(`nobody is signed in at ${root_url} here`);
    const rights = examineRights(desk, path, NAMED);
    const left_ms = Date.parse(held.expires_at) - desk.now();
    if (left_ms > 0) {
      const minutes = Math.ceil(left_ms / 60_000);
      const good: Diagnosis = { ...NAMED, verdict: 'ok', where: path, found: `good for ${minutes} more minutes` };
      return { token: held.access_token, diagnoses: [good, ...rights] };
    }
    if (held.refresh_token === undefined) {
      const { diagnoses } = failed(`it expired at ${held.expires_at}, and can't be renewed`);
      return { token: undefined, diagnoses: [...diagnoses, ...rights] };
    }
    const renewed: Diagnosis = {
      ...NAMED,
      verdict: 'ok',
      where: path,
      found: 'expired, to be renewed at the next use',
    };
    return { token: undefined, diagnoses: [renewed, ...rights] };
  } catch (error) {
    if (error instanceof StartError) return failed(error.message, `move ${path} away, then ${again}`);
    throw error;
  }
}
