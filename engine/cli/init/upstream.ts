import { urlProblem } from '../../kit/net/addresses.ts';
import { isEnvironmentName } from '../../source/diagnostics/secrets.ts';
import type { Input } from '../client/client-input.ts';
import { usageError } from '../exit-codes.ts';

/** What is said of the upstream on the command line. */
export interface UpstreamOptions {
  readonly upstreamUrl?: string;
  readonly upstreamType?: 'vendor' | 'compat';
  readonly keyEnv?: string;
}

/** The upstream that the new configuration has. */
export interface NewUpstream {
  /** `undefined` for the stand-in on this machine. */
  readonly base_url: string | undefined;
  readonly type: 'vendor' | 'compat';
  readonly key_env: string;
}

const KEY_ENV = 'UPSTREAM_KEY';

/** What is wrong with an answer, in words that do not repeat it: somebody may have pasted a key. */
const PROBLEMS = {
  url: (text: string): string | undefined => {
    const problem = urlProblem(text, 'base');
    return (
      problem && `the address of the upstream cannot be used: ${problem}; write one such as https://api.example.com`
    );
  },
  type: (text: string): string | undefined =>
    text === 'vendor' || text === 'compat'
      ? undefined
      : 'write vendor (it speaks Messages) or compat (chat completions)',
  key_env: (text: string): string | undefined =>
    isEnvironmentName(text)
      ? undefined
      : `that is no name of an environment variable: letters, digits and _, such as ${KEY_ENV}; never the key itself`,
};

/** The upstream by the options; where there are none and somebody can answer, it asks. Raises StartError. */
export async function chooseUpstream(
  given: UpstreamOptions,
  input: Input,
  tell: (text: string) => void,
): Promise<NewUpstream> {
  const { upstreamUrl: url, upstreamType: type, keyEnv: key_env } = given;
  const problem =
    (url !== undefined && PROBLEMS.url(url)) || (key_env !== undefined && PROBLEMS.key_env(key_env)) || undefined;
  if (problem !== undefined) throw usageError(problem);
  if (url === undefined && type !== undefined)
    throw usageError('--upstream-type is of an upstream that --upstream-url names');
  const is_asked = url === undefined && input.answers;
  const ask = async (question: string, usual: string, problemOf: (text: string) => string | undefined) => {
    for (;;) {
      const said = (await input.line(question, false)).trim() || usual;
      const wrong = said === usual ? undefined : problemOf(said);
      if (wrong === undefined) return said;
      tell(`${wrong}\n`);
    }
  };
  const base_url = is_asked
    ? await ask('Address of your provider (Enter: a stand-in on this machine): ', '', PROBLEMS.url)
    : url;
  const is_own = base_url !== undefined && base_url !== '';
  const asks = is_asked && is_own;
  return {
    base_url: is_own ? base_url : undefined,
    type: ((asks
      ? await ask('Does it speak Messages (vendor) or chat completions (compat)? [vendor] ', 'vendor', PROBLEMS.type)
      : type) ?? 'vendor') as 'vendor' | 'compat',
    key_env:
      (asks && key_env === undefined
        ? await ask(`Name of the variable with its key [${KEY_ENV}]: `, KEY_ENV, PROBLEMS.key_env)
        : key_env) ?? KEY_ENV,
  };
}

const CHAT_ANSWER =
  '{ object: chat.completion, choices: [{ index: 0, message: { role: assistant, content: Hi }, finish_reason: stop }], usage: { prompt_tokens: 10, completion_tokens: 5 } }';

/** A template with the upstream in it. */
export function withUpstream(name: string, text: string, { base_url, type, key_env }: NewUpstream): string {
  if (name === 'gateway.test.yaml') {
    if (type === 'vendor') return text;
    return text
      .replaceAll(/(?<=json:)\s+\{\s+type: message,[^}]*usage: \{[^}]*\},?\s+\}/g, () => ` ${CHAT_ANSWER}`)
      .replace('      unchanged: true\n', '');
  }
  if (name !== 'gateway.yaml') return text;
  const named = text.replace(/(?<=^ {4}api_key_env: ).+/m, () => key_env);
  if (base_url === undefined) return named;
  const speaks = 'compat # speaks chat completions: requests of other clients are translated\n    protocols: [chat]';
  return named
    .replace(/^# Providers of models\. .+/m, '# Providers of models.')
    .replace(/(?<=^ {4}base_url: ).+/m, () => base_url)
    .replace('    profile: neutral\n', '    # profile: anthropic\n')
    .replace(/(?<=^ {4}type: )vendor.+/m, (vendor) => (type === 'vendor' ? vendor : speaks));
}
