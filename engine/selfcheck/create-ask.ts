import { type Exchange, exchange } from '../kit/net/exchange.ts';
import type { Way } from '../kit/net/way.ts';
import { programVersion } from '../kit/package-root.ts';
import { isTimeout, NoAnswerInTime } from './no-answer.ts';
import { NotAsked } from './not-asked.ts';
import type { Ask, Subject } from './subject.ts';

/** How a gateway is asked. */
export interface AskOptions {
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  readonly token: string;
  readonly header_prefixes: readonly string[];
  /** For one request, where it says nothing else. */
  readonly seconds: number;
  /** For everything together. */
  readonly total_seconds: number;
  /** How the gateway is reached; directly where nothing is said. Raises UnusableProxy. */
  readonly wayTo?: (url: URL) => Way;
  /** Certificates to trust, in PEM, in place of the usual ones. */
  readonly ca?: readonly string[];
}

/** Version of the Messages API that is asked for. */
const VERSION = '2023-06-01';

/** So often the time of a request is lost by waiting for nothing; then the gateway is not asked again. */
const WAITS_MAX = 3;

/** What asks one gateway, and ends the asking. */
export interface Asker extends Pick<Subject, 'ask' | 'holdsToken'> {
  readonly signal: AbortSignal;
  /** Ends what is being asked, and keeps everything from being asked after it. */
  stop(reason: NotAsked): void;
  /** Forgets the time limit of everything together. */
  close(): void;
}

/** Makes what asks a gateway, and gives up on one that keeps it waiting again and again. */
export function createAsker(options: AskOptions): Asker {
  const { root_url, token, seconds: usual_seconds, total_seconds } = options;
  const stopped = new AbortController();
  const stop = (reason: NotAsked) => stopped.abort(reason);
  const deadline = setTimeout(
    () => stop(new NotAsked(`the time for all checks together, ${total_seconds} seconds, is over`)),
    total_seconds * 1000,
  );
  let waited_seconds = 0;
  const noteWait = (seconds: number) => {
    waited_seconds += seconds;
    if (waited_seconds < WAITS_MAX * usual_seconds) return;
    stop(new NotAsked('the gateway left too many requests waiting until their time was over'));
  };
  const ask = async (given: Ask): Promise<Exchange> => {
    stopped.signal.throwIfAborted();
    const seconds = Math.min(given.seconds ?? usual_seconds, usual_seconds);
    const { method = given.json === undefined && given.body === undefined ? 'GET' : 'POST' } = given;
    const body = given.body ?? (given.json === undefined ? undefined : JSON.stringify(given.json));
    try {
      const url = `${root_url}${given.path}`;
      const answer = await exchange(url, {
        method,
        headers: headersOf(given, options, body !== undefined),
        ...(body === undefined ? {} : { body }),
        seconds,
        signal: stopped.signal,
        proxy: options.wayTo?.(new URL(url)).proxy,
        ...(options.ca === undefined ? {} : { ca: options.ca }),
      });
      stopped.signal.throwIfAborted();
      if (answer.ending === 'too_late') noteWait(seconds);
      return answer;
    } catch (error) {
      if (!isTimeout(error)) throw error;
      noteWait(seconds);
      throw new NoAnswerInTime(seconds);
    }
  };
  const written = [token, encodeURIComponent(token)];
  return {
    ask,
    holdsToken: (text) => written.some((each) => text.includes(each)),
    signal: stopped.signal,
    stop,
    close: () => clearTimeout(deadline),
  };
}

/** Some gateways answer in another form where the version of Messages is named, which clients of other protocols do not do. */
const MESSAGES_PATH = /^\/v1\/(messages\b|models\?)/;

function headersOf(
  { headers = {}, token, path }: Ask,
  options: Pick<AskOptions, 'token' | 'header_prefixes'>,
  has_body: boolean,
): Record<string, string> {
  const credential = token === undefined ? options.token : token;
  const own = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    'user-agent': `appscli/${programVersion()}`,
    accept: 'application/json, text/event-stream',
    ...(has_body ? { 'content-type': 'application/json' } : {}),
    ...Object.fromEntries(
      MESSAGES_PATH.test(path) ? options.header_prefixes.map((prefix) => [`${prefix}-version`, VERSION]) : [],
    ),
    ...(credential === null ? {} : { authorization: `Bearer ${credential}` }),
    ...Object.fromEntries(own),
  };
}
