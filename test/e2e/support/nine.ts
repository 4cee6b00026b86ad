/**
 * A gateway in front of a strict model provider in each of the three protocols: every client's protocol times every
 * upstream's.
 */
import { beforeEach } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { PROTOCOL_PATHS, PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { bootGateway, type ConfigSections, ONE_ATTEMPT, type TestGateway } from '../../support/gateway.ts';
import { startModelProvider } from '../../support/model-provider/model-provider.ts';
import { standIn, use } from '../../support/use.ts';
import { type Response, send } from './client.ts';
import { nothingReserved } from './state.ts';
import { lend } from './use-gateway.ts';

/** Prices in dollars per million tokens: nano-USD per token are a thousand times as many. */
export const PRICING = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };

/** The requested model of this protocol. */
export const modelVia = (protocol: Protocol): string => `via-${protocol}`;

/** A model with the same name at this upstream. */
export const sameAt = (protocol: Protocol): string => `same-${protocol}`;

/** Every client's protocol with every upstream's. */
export const COMBINATIONS: readonly (readonly [spoken: Protocol, upstream: Protocol])[] = PROTOCOLS.flatMap((spoken) =>
  PROTOCOLS.map((upstream) => [spoken, upstream] as const),
);

/** Those that are translated. */
export const TRANSLATED = COMBINATIONS.filter(([spoken, upstream]) => spoken !== upstream);

/** A file's additions to the nine: upstreams at the same address with the same key, models of the same size and price, and rules. */
interface More {
  readonly upstreams?: readonly object[];
  readonly models?: readonly object[];
  readonly rules?: readonly object[];
}

/** Sections of gateway.yaml for one upstream at this address in each protocol. */
export function nineConfig(url: string, { upstreams = [], models = [], rules = [] }: More = {}): ConfigSections {
  const key = { api_key_env: 'TEST_UPSTREAM_KEY' };
  const model = { context_window: 200_000, max_output_tokens: 64_000, pricing: PRICING };
  return {
    upstreams: [
      { name: 'messages', type: 'vendor', base_url: url, ...key, ...ONE_ATTEMPT },
      { name: 'chat', type: 'compat', protocols: ['chat'], base_url: url, ...key, ...ONE_ATTEMPT },
      { name: 'responses', type: 'compat', protocols: ['responses'], base_url: `${url}/v1`, ...key, ...ONE_ATTEMPT },
      ...upstreams.map((upstream) => ({ base_url: url, ...key, ...upstream })),
    ],
    models: [
      ...PROTOCOLS.map((protocol) => ({
        ...model,
        id: modelVia(protocol),
        aliases: [`${protocol}-latest`],
        upstream_ids: { [protocol]: `upstream-${protocol}` },
      })),
      ...PROTOCOLS.map((protocol) => ({ ...model, id: sameAt(protocol) })),
      { ...model, id: 'budget-1', supports: { thinking: 'budget' } },
      ...models.map((one) => ({ ...model, ...one })),
    ],
    token_groups: [{ name: 'all', models: ['*'] }],
    routing: {
      default_upstream: 'messages',
      rules: [
        ...PROTOCOLS.map((protocol) => ({
          name: protocol,
          models: [modelVia(protocol), sameAt(protocol)],
          upstream: protocol,
        })),
        ...rules,
      ],
    },
  };
}

/** The tools of a test of combinations. */
export type Nine = ReturnType<typeof useNine>;

/**
 * Gives the tests of a file both. Before each test the provider has seen nothing and returns a short text. Files without sections
 * of their own share them.
 */
export function useNine(more?: (url: string) => ConfigSections) {
  const opened = use(async () => {
    const nine = await (more === undefined ? lendNine() : openNine(more));
    const { url, token } = nine.gateway;
    return {
      ...nine,
      messages: new Anthropic({ baseURL: url, authToken: token, apiKey: null, maxRetries: 0 }),
      openai: new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 }),
    };
  });
  beforeEach(() => opened.provider.reset());
  return {
    provider: standIn(() => opened.provider),
    gateway: standIn(() => opened.gateway),
    messages: standIn(() => opened.messages),
    openai: standIn(() => opened.openai),
  };
}

async function openNine(more: (url: string) => ConfigSections = () => ({})) {
  const provider = await startModelProvider();
  const { url } = provider;
  const config = { ...nineConfig(url), ...more(url) };
  const gateway = await bootGateway({ upstream_url: url, config }).catch(async (error) => {
    await provider.close();
    throw error;
  });
  const close = async () => {
    try {
      await nothingReserved(gateway.database);
    } finally {
      await gateway.close();
      await provider.close();
    }
  };
  return { provider, gateway, close };
}

const lendNine = lend(openNine);

/** How to send a body to a protocol's path with plain HTTP. */
export function sending(spoken: Protocol, token: string, body: string) {
  const headers = ['authorization', `Bearer ${token}`, 'content-type', 'application/json'];
  // Every client of the Messages protocol sends its version, and the protocol requires it.
  if (spoken === 'messages') headers.push('anthropic-version', '2023-06-01');
  return { path: PROTOCOL_PATHS[spoken], headers, body };
}

/** Sends a body to a protocol's path with plain HTTP. */
export function post(gateway: TestGateway, spoken: Protocol, body: object | string): Promise<Response> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return send(gateway.url, sending(spoken, gateway.token, text));
}

/** The shortest request of a protocol with this text. */
export function askBody(
  spoken: Protocol,
  model: string,
  text = 'Say hello.',
  more: object = {},
): Record<string, unknown> {
  if (spoken === 'responses') return { model, input: text, ...more };
  return {
    model,
    ...(spoken === 'messages' && { max_tokens: 500 }),
    messages: [{ role: 'user', content: text }],
    ...more,
  };
}
