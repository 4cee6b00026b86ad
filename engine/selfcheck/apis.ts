import type { Protocol } from '../contract/protocol.ts';

/** A part of the API of a gateway, as people are told of it. */
export interface Api {
  readonly path: string;
  /** In the plural, such as `chat completions`. */
  readonly what: string;
  /** Who asks it. */
  readonly clients: string;
}

/** What coding clients ask, by protocol. */
export const APIS: Readonly<Record<Protocol, Api>> = {
  messages: { path: '/v1/messages', what: 'Messages', clients: 'the Messages client' },
  chat: { path: '/v1/chat/completions', what: 'chat completions', clients: 'the build CLI and others like it' },
  responses: { path: '/v1/responses', what: 'Responses', clients: 'the coding CLI and others like it' },
};

/** What the real clients take, so that a proxy that compresses streams for them does it here, too. */
export const CLIENTS_TAKE = { 'accept-encoding': 'gzip, deflate, br, zstd' } as const;
