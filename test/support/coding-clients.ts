/**
 * Coding clients and rejections, as observed (November 2026: Messages client 2.1.330, coding CLI 0.169.0, build CLI
 * 1.0.41), with their waits counted instead of slept.
 */

/** A client's result of a turn. */
export interface Turn {
  /** Requests it sent. */
  readonly tries: number;
  /** Seconds it would have waited between them. */
  readonly waited: number;
  /** The last status it got. */
  readonly status: number;
  /** The text shown to its user; undefined for a response. */
  readonly shown: string | undefined;
}

/** A gateway and a token for it. */
export interface Entry {
  readonly url: string;
  readonly token: string;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

async function post({ url, token }: Entry, path: string, body: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** A client's next step: ends its turn and shows this, or waits so many seconds. */
type Reaction = { readonly shown: string } | { readonly wait: number };

async function turn(send: () => Promise<Answer>, react: (response: Answer, nth: number) => Reaction): Promise<Turn> {
  let waited = 0;
  for (let tries = 1; ; tries++) {
    const response = await send();
    const { status } = response;
    if (status === 200) return { tries, waited, status, shown: undefined };
    const reaction = react(response, tries);
    if ('shown' in reaction) return { tries, waited, status, shown: reaction.shown };
    waited += reaction.wait;
  }
}

/** One turn of the coding CLI, which speaks Responses. */
export function codingCli(entry: Entry, { message_header }: { message_header: string }): Promise<Turn> {
  const body = { model: 'coder-1', input: [{ role: 'user', content: 'Say hello.' }], stream: true, store: false };
  return turn(
    () => post(entry, '/v1/responses', body),
    (response, nth) => {
      const { status, headers, text } = response;
      const usage = status === 429 ? readUsageError(text) : undefined;
      if (usage?.type === 'usage_limit_reached') {
        const said = headers.get(message_header);
        const when = usage.resets_at == null ? 'try again later' : `try again at ${usage.resets_at}`;
        return { shown: `You've hit your usage limit. ${said === null ? '' : `${said}, or `}${when}.` };
      }
      if (status === 400) return { shown: text };
      const retry_after = headers.get('retry-after');
      if (status === 429 && retry_after === null) return { shown: 'exceeded retry limit, last status: 429' };
      if (nth > 5)
        return { shown: status === 429 ? 'exceeded retry limit' : `unexpected status ${status}: ${words(text)}` };
      return { wait: retry_after === null ? 0.2 * 2 ** (nth - 1) : Number(retry_after) };
    },
  );
}

/** Reads like a typed deserializer: one field of another type, and the whole does not match. */
function readUsageError(text: string): { type: string; resets_at?: number | null } | undefined {
  const { error } = JSON.parse(text);
  const { type, plan_type, resets_at } = error;
  const fits =
    typeof type === 'string' &&
    (plan_type == null || typeof plan_type === 'string') &&
    (resets_at == null || Number.isInteger(resets_at));
  return fits ? error : undefined;
}

const words = (text: string): string => JSON.parse(text).error.message;

/** One turn of the build CLI, which speaks chat completions. */
export function buildCli(entry: Entry): Promise<Turn> {
  const body = { model: 'coder-1', messages: [{ role: 'user', content: 'Say hello.' }], stream: true };
  const final = new Set([400, 401, 403, 404, 413, 422]);
  return turn(
    () => post(entry, '/v1/chat/completions', body),
    ({ status, headers, text }, nth) => {
      const { type, message } = JSON.parse(text).error;
      const ends = headers.get('x-should-retry') === 'false' || final.has(status) || nth > 2;
      if (ends) return { shown: `${type}: ${message}` };
      return { wait: Math.min(120, Number(headers.get('retry-after') ?? nth)) };
    },
  );
}

/** One turn of the Messages client. */
export function messagesClient(entry: Entry): Promise<Turn> {
  const body = { model: 'coder-1', max_tokens: 64, messages: [{ role: 'user', content: 'Say hello.' }], stream: true };
  return turn(
    () => post(entry, '/v1/messages?beta=true', body),
    ({ status, headers, text }, nth) => {
      const retry_after = Number(headers.get('retry-after') ?? 0);
      const may = headers.get('x-should-retry') ?? String(status === 429 || status >= 500);
      if (may === 'false' || retry_after > 60 || nth > 10) return { shown: `API Error: (${status}) ${words(text)}` };
      return { wait: retry_after || 0.5 * 2 ** (nth - 1) };
    },
  );
}
