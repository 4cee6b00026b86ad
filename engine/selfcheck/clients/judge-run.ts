import { basename } from 'node:path';
import { printableLine, printableWord } from '../../kit/text/printable.ts';
import { APIS } from '../apis.ts';
import type { SelfCheckOutcome } from '../check.ts';
import type { RunnableClient } from './kinds.ts';
import type { SingleRun } from './run-once.ts';

const SHOWN_MAX = 300;
const LINES_MAX = 4;

/** What is known of a run besides how it ended. */
export interface RunContext {
  readonly client: RunnableClient;
  readonly program: string;
  readonly root_url: string;
  /** Whether the reply is the one that was asked for. */
  readonly isExpected: (reply: string) => boolean;
  readonly seconds: number;
}

/** What a single run says about the gateway. */
export function judgeRun(run: SingleRun, context: RunContext): SelfCheckOutcome {
  const { client, program, seconds } = context;
  const { ending, exit_code, opened, version } = run;
  const name = basename(program);
  const sent = `${[name, ...client.args('<prompt>')].map(printableWord).join(' ')}, in a home directory of its own`;
  const details = [`${program}${version === '' ? '' : `, version ${shorten(version)}`}`, ...lastLines(run)];
  const reply = printableLine(run.stdout.trim());
  const came = cameOf(run, reply);
  const told = { sent, came, details };
  if (opened.length > 0) {
    return {
      ...told,
      verdict: 'failed',
      found: `it opened a browser at ${opened.join(' and ')} to sign in, so it read no key or got none accepted`,
      remedy: `does the gateway take this token for ${APIS[client.api].path}? appscli doctor ${client.kind} looks at the files of the client here`,
    };
  }
  if (ending === 'no_start') {
    return { ...told, verdict: 'skipped', found: `${program} can not be started` };
  }
  if (ending === 'too_late') {
    return {
      ...told,
      verdict: 'failed',
      found: `it gave no reply within ${seconds} seconds`,
      remedy:
        'see what the other checks say of streams and errors; clients try again for minutes before they tell of an error',
    };
  }
  if (ending === 'exit' && exit_code !== 0 && NO_SUCH_OPTION.test(run.stderr)) {
    return {
      ...told,
      verdict: 'skipped',
      found:
        'this version can not be run without its tools, which a gateway could have read files and run commands here',
      remedy: 'update the client, if it is an old one',
    };
  }
  if (ending !== 'exit' || exit_code !== 0) return { ...told, ...failed(run) };
  if (context.isExpected(run.stdout)) {
    return { ...told, verdict: 'ok', found: 'it replied as asked, and opened no browser' };
  }
  if (reply === '') {
    return {
      ...told,
      verdict: 'failed',
      found: 'it ended well and printed no reply',
      remedy: `look at what the gateway answers on ${APIS[client.api].path}: an empty answer, or one without its last event, does this`,
    };
  }
  return {
    ...told,
    verdict: 'warning',
    found: `it printed something else than was asked for, and opened no browser: ${shorten(reply)}`,
    remedy: 'a model may not have done as it was told: run it again, or with another --model',
  };
}

/** How clients say that they do not know an option. */
const NO_SUCH_OPTION = /^error: (?:unknown (?:option|feature flag)|unexpected argument|invalid value)\b/im;

const REMEDIES: readonly (readonly [pattern: RegExp, remedy: string])[] = [
  [
    /certificate|self.signed|\bTLS\b|\bSSL\b/i,
    'it may trust other authorities than this program: name a file with yours in NODE_EXTRA_CA_CERTS and SSL_CERT_FILE',
  ],
  [
    /not (?:logged|signed) in|missing environment variable/i,
    'it reads no key from files as appscli client writes them: has this version other names? --profile gives them',
  ],
  [/\b401\b|unauthorized/i, 'the gateway refuses the token as this client sends it, in the header authorization'],
  [
    /^(?!.*metadata).*model\b.{0,40}(?:not found|not exist|not supported)/im,
    'the client asks for a model that this token may not use: name another with --model, or ask for a token of another group',
  ],
];

function failed({
  ending,
  exit_code,
  stdout,
  stderr,
}: SingleRun): Pick<SelfCheckOutcome, 'verdict' | 'found' | 'remedy'> {
  const how =
    ending === 'too_large'
      ? 'it printed without end'
      : ending === 'stopped'
        ? 'it was stopped'
        : `it ended with exit code ${exit_code ?? 'none'}`;
  const said = [...linesOf(stderr), ...linesOf(stdout)].join('\n');
  const remedy =
    REMEDIES.find(([pattern]) => pattern.test(said))?.[1] ??
    'its last lines say why; the other checks show what the gateway answers';
  return { verdict: 'failed', found: `${how} and gave no reply`, remedy };
}

function cameOf({ exit_code, ending }: SingleRun, reply: string): string {
  const end = exit_code === undefined ? ending.replaceAll('_', ' ') : `exit code ${exit_code}`;
  return `${end}, ${reply === '' ? 'no reply' : `the reply: ${shorten(reply)}`}`;
}

/** Where something went wrong its reason is in the last lines. */
function lastLines({ exit_code, stderr }: SingleRun): string[] {
  return exit_code === 0 ? [] : linesOf(stderr).map((line) => `it said: ${shorten(line)}`);
}

function linesOf(output: string): string[] {
  const lines = output.split('\n').map((line) => printableLine(line).trim());
  return [...new Set(lines.filter((line) => line !== ''))].slice(-LINES_MAX);
}

function shorten(text: string): string {
  const line = printableLine(text);
  return line.length <= SHOWN_MAX ? line : `${line.slice(0, SHOWN_MAX - 1)}…`;
}
