import { usageError } from './exit-codes.ts';

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,199}$/;
const TOKEN = /^[\x21-\x7e]{1,8192}$/;

/** The token in a variable that an option names. Raises StartError, which never repeats what may be a token. */
export function tokenIn(variable: string, option: string, env: NodeJS.ProcessEnv): string {
  if (!VARIABLE.test(variable) || variable.startsWith('gw_')) {
    throw usageError(
      `${option} takes the name of an environment variable, not a token; if that was one, revoke it: your shell may have kept it`,
    );
  }
  const token = (env[variable] ?? '').trim();
  if (token === '') throw usageError(`${option} names ${variable}, and that is not set`);
  if (TOKEN.test(token)) return token;
  throw usageError(
    `${option} names ${variable}, and what that holds is no token: it has spaces or other odd characters`,
  );
}
