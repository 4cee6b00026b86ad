import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { type Fields, fieldsOf } from './fields.ts';

/** The session of a request, and the stored response that it continues. */
export interface SessionReading {
  /** Hash of the client's session identifier, or of the beginning of its prompts; `undefined` where there is neither. */
  readonly key: string | undefined;
  readonly is_named: boolean;
  /** Hash of the stored response or conversation that the request continues. */
  readonly continues: string | undefined;
}

/** Session headers of clients, the most specific first. */
const SESSION_HEADER = 'x-claude-code-session-id';
const SESSION_HEADERS = [
  SESSION_HEADER,
  'session-id',
  'thread-id',
  'x-session-id',
  'session_id',
  'conversation_id',
  'x-grok-conv-id',
];

/** Hashed characters of a prompt: cached prompts begin with all of them. */
const PROMPT_CHARS = 4096;

/** Longest text that is read for the session in it. */
const USER_CHARS_MAX = 2000;

/** Words before a session in the names of users. */
const SESSION_MARK = '_session_';

/** The client's own mark at the head of its prompts, which says how it was called. */
const ATTRIBUTION = /^x-[a-z-]+-billing-header:/;

/** Characters of a hash that are kept: as many sessions as there are never share one. */
const KEY_CHARS = 22;

/** Hashes the parts, so that no prompt and no name becomes a fact. */
export function sessionKey(kind: 'session' | 'prompt' | 'caller' | 'stored', text: string): string {
  return hash('sha256', `${kind} ${text}`, 'base64url').slice(0, KEY_CHARS);
}

/**
 * Reads the session of a request from its headers or its body.
 * @param whole a member of the outermost object, where the texts in `body` may be cut short
 */
export function readSession(
  body: Fields,
  headers: IncomingHttpHeaders,
  whole: (key: string) => unknown = (key) => body[key],
): SessionReading {
  const session = sessionTold(body, headers);
  const prompt = session === undefined ? promptOf(whole) : '';
  const key = session !== undefined ? sessionKey('session', session) : prompt && sessionKey('prompt', prompt);
  const stored = storedId(body);
  const is_named = session !== undefined;
  return {
    key: key || undefined,
    is_named,
    continues: stored === undefined ? undefined : sessionKey('stored', stored),
  };
}

function sessionTold(body: Fields, headers: IncomingHttpHeaders): string | undefined {
  return (
    textOf(headers[SESSION_HEADER]) ??
    sessionOfUser(fieldsOf(body.metadata).user_id) ??
    textOf(body.prompt_cache_key) ??
    sessionInHeaders(headers) ??
    textOf(body.session_id)
  );
}

/** What a client calls its session in a header. */
export function sessionInHeaders(headers: IncomingHttpHeaders): string | undefined {
  for (const name of SESSION_HEADERS) {
    const text = textOf(headers[name]);
    if (text !== undefined) return text;
  }
  return undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Clients write the session behind their user: as `..._session_<id>`, or as JSON. */
function sessionOfUser(user: unknown): string | undefined {
  if (typeof user !== 'string' || user.length > USER_CHARS_MAX) return undefined;
  if (!user.startsWith('{')) {
    const mark = user.lastIndexOf(SESSION_MARK);
    return mark < 0 ? undefined : textOf(user.slice(mark + SESSION_MARK.length));
  }
  try {
    return textOf(fieldsOf(JSON.parse(user)).session_id);
  } catch {
    return undefined;
  }
}

function storedId({ previous_response_id, conversation }: Fields): string | undefined {
  return textOf(previous_response_id) ?? textOf(conversation) ?? textOf(fieldsOf(conversation).id);
}

/** The beginning of the prompt: instructions and tools, which all turns repeat. */
function promptOf(whole: (key: string) => unknown): string {
  let prompt = textIn(whole('system')) + textIn(whole('instructions'));
  const add = (keys: readonly string[], textsOf: (value: unknown) => Iterable<string>) => {
    for (const key of keys) {
      if (prompt.length >= PROMPT_CHARS) return;
      for (const text of textsOf(whole(key))) {
        if (prompt.length >= PROMPT_CHARS) return;
        prompt += text;
      }
    }
  };
  add(['messages', 'input'], (value) => leading(value).map(({ content }) => textIn(content)));
  add(['tools', 'functions'], (value) => listed(value).map((tool) => JSON.stringify(tool)));
  return prompt.slice(0, PROMPT_CHARS);
}

function listed(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function leading(messages: unknown): Fields[] {
  const found: Fields[] = [];
  for (const message of listed(messages)) {
    const fields = fieldsOf(message);
    if (fields.role !== 'system' && fields.role !== 'developer') break;
    found.push(fields);
  }
  return found;
}

function textIn(content: unknown): string {
  if (typeof content === 'string') return content.slice(0, PROMPT_CHARS);
  let text = '';
  for (const part of listed(content)) {
    if (text.length >= PROMPT_CHARS) break;
    const { text: said } = fieldsOf(part);
    if (typeof said === 'string' && !ATTRIBUTION.test(said)) text += said.slice(0, PROMPT_CHARS);
  }
  return text;
}
