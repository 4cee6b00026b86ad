import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { fieldsOf } from '../../../base/kit/json/fields.ts';
import { itemsOf, jsonIn } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';

/** The session of a request, and the stored response that it continues. */
export interface SessionReading {
  /** Hash of the client's session identifier, or of the beginning of its prompts; `undefined` without both. */
  readonly key: string | undefined;
  readonly is_named: boolean;
  readonly continues: string | undefined;
}

/** Session headers of clients, the most specific first. */
const SESSION_HEADER = 'x-claude-code-session-id';
const SESSION_HEADERS = [
  ...[SESSION_HEADER, 'session-id', 'thread-id', 'x-session-id', 'session_id', 'conversation_id', 'x-grok-conv-id'],
];

/** Hashed characters of a prompt: cached prompts begin with all of them. */
const PROMPT_CHARS = 4096;

const USER_CHARS_MAX = 2000;

const SESSION_MARK = '_session_';

/** A client's line at the start of its prompts about its invocation. */
const ATTRIBUTION = /^x-[a-z-]+-billing-header:/;

const KEY_CHARS = 22;

/** Hashes a text, so that no prompt and no name becomes a fact. */
export function sessionKey(kind: 'session' | 'prompt' | 'caller' | 'stored', text: string): string {
  return hash('sha256', `${kind} ${text}`, 'base64url').slice(0, KEY_CHARS);
}

/** Reads the session of a request; `whole` gives complete members, as texts in `body` may be truncated. */
export function readSession(
  body: Json,
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

function sessionTold(body: Json, headers: IncomingHttpHeaders): string | undefined {
  return (
    textOf(headers[SESSION_HEADER]) ??
    sessionOfUser(fieldsOf(body.metadata).user_id) ??
    textOf(body.prompt_cache_key) ??
    sessionInHeaders(headers) ??
    textOf(body.session_id)
  );
}

/** The session identifier in a header. */
export function sessionInHeaders(headers: IncomingHttpHeaders): string | undefined {
  return SESSION_HEADERS.map((name) => textOf(headers[name])).find((text) => text !== undefined);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The session in a user id: as `..._session_<id>`, or in JSON. */
function sessionOfUser(user: unknown): string | undefined {
  if (typeof user !== 'string' || user.length > USER_CHARS_MAX) return undefined;
  if (!user.startsWith('{')) {
    const mark = user.lastIndexOf(SESSION_MARK);
    return mark < 0 ? undefined : textOf(user.slice(mark + SESSION_MARK.length));
  }
  return textOf(fieldsOf(jsonIn(user)).session_id);
}

function storedId({ previous_response_id, conversation }: Json): string | undefined {
  return textOf(previous_response_id) ?? textOf(conversation) ?? textOf(fieldsOf(conversation).id);
}

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
  add(['tools', 'functions'], (value) => itemsOf(value).map((tool) => JSON.stringify(tool)));
  return prompt.slice(0, PROMPT_CHARS);
}

function leading(messages: unknown): Json[] {
  const found: Json[] = [];
  for (const message of itemsOf(messages)) {
    const fields = fieldsOf(message);
    if (fields.role !== 'system' && fields.role !== 'developer') break;
    found.push(fields);
  }
  return found;
}

function textIn(content: unknown): string {
  if (typeof content === 'string') return content.slice(0, PROMPT_CHARS);
  let text = '';
  for (const part of itemsOf(content)) {
    if (text.length >= PROMPT_CHARS) break;
    const { text: spoken } = fieldsOf(part);
    if (typeof spoken === 'string' && !ATTRIBUTION.test(spoken)) text += spoken.slice(0, PROMPT_CHARS);
  }
  return text;
}
