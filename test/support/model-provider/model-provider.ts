/**
 * A scripted model provider for tests: one port that speaks Messages, chat completions and Responses, as strict as the real
 * APIs about what it is asked, driven by one script in the words of none of them.
 */
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import {
  chatDocument,
  chatError,
  chatEvents,
  messagesDocument,
  messagesError,
  messagesEvents,
  numbered,
  responsesDocument,
  responsesEvents,
} from './model-provider-answers.ts';
import { Refused } from './model-provider-checks.ts';
import { checkChat, checkResponses, seenInChat, seenInResponses } from './model-provider-compat.ts';
import {
  checkMessages,
  checkVendorBody,
  checkVendorHeaders,
  seenInMessages,
  type VendorModels,
  withoutBetaFields,
} from './model-provider-messages.ts';
import type { Answer, AnswerIds, Asked, Failure, Seen } from './model-provider-script.ts';
import { type Exchange, type Script, sse, startUpstream } from './scripted-upstream.ts';

export type { Answer, AnswerIds, Asked, Failure, Said, Seen } from './model-provider-script.ts';

/** The model's reaction to a request. */
export type Model = (asked: Asked) => Answer | Failure;

/** The running provider. */
export type ModelProvider = Awaited<ReturnType<typeof startModelProvider>>;

/** How one API is spoken. */
interface Voice {
  check(body: unknown): void;
  seen(body: unknown): Seen;
  document(answer: Answer, ids: AnswerIds): object;
  events(answer: Answer, ids: AnswerIds, include_usage: boolean): string[];
  error(failure: Failure, param?: string): object;
  /** An error in a stream, after so many events. */
  streamError(failure: Failure, after: number): string;
}

const VOICES: Readonly<Record<Protocol, Voice>> = {
  messages: {
    check: checkMessages,
    seen: seenInMessages,
    document: messagesDocument,
    events: messagesEvents,
    error: messagesError,
    streamError: (failure) => sse(messagesError(failure)),
  },
  chat: {
    check: checkChat,
    seen: seenInChat,
    document: chatDocument,
    events: chatEvents,
    error: chatError,
    streamError: (failure) => `data: ${JSON.stringify(chatError(failure))}\n\n`,
  },
  responses: {
    check: checkResponses,
    seen: seenInResponses,
    document: responsesDocument,
    events: responsesEvents,
    error: chatError,
    streamError: (failure, after) => {
      const { error } = chatError(failure);
      const { message, code, param } = error;
      const failed = { id: 'resp_1', object: 'response', status: 'failed', error: { code, message }, output: [] };
      return numbered(
        [
          { type: 'error', code, message, param },
          { type: 'response.failed', response: failed },
        ],
        after,
      ).join('');
    },
  },
};

const PATHS: Readonly<Record<string, Protocol>> = {
  '/v1/messages': 'messages',
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'responses',
};

const ID_PREFIXES: Readonly<Record<Protocol, readonly [answer: string, call: string]>> = {
  messages: ['msg_01Scripted', 'toolu_01Scripted'],
  chat: ['chatcmpl-Scripted', 'call_Scripted'],
  responses: ['resp_Scripted', 'call_Scripted'],
};

/** Identifiers of the response with this number, in the API's format. */
export function idsOf(protocol: Protocol, number: number, model: string): AnswerIds {
  const [response, call] = ID_PREFIXES[protocol];
  return { id: `${response}${number}`, model, created: 1_790_000_000, call: (index) => `${call}${number}n${index}` };
}

/** Events of a stream with this text, as the upstream sends them. */
export function eventsOf(protocol: Protocol, response: Answer, include_usage = true): string[] {
  return VOICES[protocol].events(response, idsOf(protocol, 1, 'upstream-model'), include_usage);
}

/** The document with this text, as the upstream sends it. */
export function documentOf(protocol: Protocol, response: Answer): object {
  return VOICES[protocol].document(response, idsOf(protocol, 1, 'upstream-model'));
}

/** Rejects, with Refused, this API's invalid requests. */
export function checkRequest(protocol: Protocol, body: unknown): Seen {
  VOICES[protocol].check(body);
  return VOICES[protocol].seen(body);
}

function send({ res }: Exchange, status: number, body: object, headers: Failure['headers'] = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  res.end(JSON.stringify(body));
}

async function answerWith({ res }: Exchange, asked: Asked, response: Answer, ids: AnswerIds): Promise<void> {
  const voice = VOICES[asked.protocol];
  const id = { 'request-id': 'req_provider' };
  if (!asked.stream) {
    res.writeHead(200, { 'content-type': 'application/json', ...id });
    return void res.end(JSON.stringify(voice.document(response, ids)));
  }
  const events = voice.events(response, ids, asked.body.stream_options?.include_usage === true);
  const { fails } = response;
  const sent = fails === undefined ? events : [...events.slice(0, fails.after), voice.streamError(fails, fails.after)];
  res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...id });
  for (const event of sent) {
    if (res.destroyed) return;
    await new Promise((written) => res.write(event, written));
  }
  res.end();
}

/** Headers that the API requires. */
function checkHeaders(protocol: Protocol, { received }: Exchange): void {
  const type = received.headers['content-type'] ?? '';
  if (!type.startsWith('application/json')) throw new Refused('content-type', `Unsupported content type ${type}`);
  if (protocol === 'messages') checkVendorHeaders(received.headers);
  else if (!received.headers.authorization?.startsWith('Bearer ')) throw new Refused('authorization', 'no API key');
}

const statusOf = ({ param }: Refused): number => (param === 'authentication' ? 401 : param === 'model' ? 404 : 400);

/** Returns a short text. */
const sayHello: Model = () => ({ said: [{ kind: 'text', text: 'Hello there, world.' }] });

/** Starts a provider on a free port of the loopback address. `models` are those of its Messages API, absent: any. */
export async function startModelProvider(options: { readonly models?: VendorModels } = {}) {
  const asked: Asked[] = [];
  const refused: string[] = [];
  const upstream = await startUpstream();
  const response: Script = async (exchange) => {
    const { received } = exchange;
    const protocol = PATHS[received.url.replace(/^\/anthropic\//, '/').split('?')[0]!];
    if (protocol === undefined || received.method !== 'POST') {
      refused.push(`${received.method} ${received.url}`);
      return send(exchange, 404, chatError({ status: 404, message: `no such path: ${received.url}` }));
    }
    const voice = VOICES[protocol];
    try {
      const body = JSON.parse(received.body.toString());
      checkHeaders(protocol, exchange);
      const { headers } = received;
      const checked = protocol === 'messages' ? withoutBetaFields(body, headers) : body;
      const question = { protocol, stream: body.stream === true, body, seen: checkRequest(protocol, checked) };
      if (protocol === 'messages') checkVendorBody(checked, headers, options.models);
      asked.push(question);
      const reply = provider.model(question);
      if ('status' in reply) return send(exchange, reply.status, voice.error(reply), reply.headers);
      await answerWith(exchange, question, reply, idsOf(protocol, asked.length, body.model));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refused.push(`${protocol}: ${error.message}`);
      const status = statusOf(error);
      send(exchange, status, voice.error({ status, message: error.message }, error.param));
    }
  };
  upstream.script = response;
  const provider = {
    url: upstream.url,
    upstream,
    /** The model's reaction to the next requests. */
    model: sayHello,
    /** Requests that were accepted, oldest first. */
    asked,
    /** Why requests were rejected, oldest first; a test that expects none compares with `[]`. */
    refused,
    /** The only accepted request so far. */
    only(): Asked {
      if (asked.length !== 1)
        throw new Error(`the provider accepted ${asked.length} requests; refused: ${refused.join(' | ')}`);
      return asked[0]!;
    },
    /** Drops requests, and returns a short text again. */
    reset() {
      asked.length = 0;
      refused.length = 0;
      upstream.requests.length = 0;
      upstream.script = response;
      provider.model = sayHello;
    },
    close: () => upstream.close(),
  };
  return provider;
}
