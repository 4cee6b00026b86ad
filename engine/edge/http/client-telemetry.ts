import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import { LRUCache } from 'lru-cache';
import { EXPORT_BYTES_MAX, SIGNALS, type Signal } from '../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { BearerTokens, Clock, Log } from '../../base/contract/services.ts';
import { mediaType } from '../../base/kit/media-type.ts';
import { atMost } from '../../base/kit/memory.ts';
import { verifyCaller } from '../../base/kit/net/credentials.ts';
import type { TelemetryRelay } from '../../domain/telemetry/relay.ts';
import { sendWhole } from '../../pipeline/run/answer.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { BodyBudget, HeldBytes } from '../../pipeline/run/holdings.ts';
import { receiveContent } from '../../pipeline/run/receive-body.ts';
import { methodNotAllowed, typeNotTaken } from './send-error.ts';

/** What a caller may send at once, and what it may send again for each second, in bytes after decompression. */
const BURST_BYTES = 32 * 1024 * 1024;
const BYTES_PER_SECOND = 512 * 1024;
/** What a request counts beside its bytes: thirty-two empty ones a second are as many as anybody may send. */
const REQUEST_BYTES = 16 * 1024;
/** Callers that are remembered; whoever is forgotten may send as much as one who sent nothing. */
const CALLERS_MAX = 20_000;

export class CallerRates {
  readonly #clock: Clock;
  readonly #callers = new LRUCache<string, { left: number; at: number }>(atMost(CALLERS_MAX));

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request. Raises rate_limit_exceeded when the caller has sent too much. */
  begin(caller: string): void {
    const known = this.#refilled(caller);
    if (known.left <= 0) {
      const seconds = Math.max(1, Math.ceil((REQUEST_BYTES - known.left) / BYTES_PER_SECOND));
      throw new StageError(
        'rate_limit_exceeded',
        `You have sent more telemetry than ${BYTES_PER_SECOND} bytes a second; send the next in ${seconds} seconds.`,
        { headers: { 'retry-after': String(seconds) } },
      );
    }
    known.left -= REQUEST_BYTES;
  }

  /** Counts what a request that was begun has brought. */
  count(caller: string, bytes: number): void {
    this.#refilled(caller).left -= bytes;
  }

  #refilled(caller: string): { left: number } {
    const now = this.#clock.monotonic();
    let known = this.#callers.get(caller);
    if (known === undefined) {
      known = { left: BURST_BYTES, at: now };
      this.#callers.set(caller, known);
    }
    known.left = Math.min(BURST_BYTES, known.left + ((now - known.at) / 1000) * BYTES_PER_SECOND);
    known.at = now;
    return known;
  }
}

/** What the telemetry of clients is taken with. */
export interface ClientTelemetryOptions {
  readonly config: GatewayConfig;
  readonly relay: TelemetryRelay;
  readonly verify: BearerTokens['verify'];
  readonly clock: Clock;
  readonly log: Log;
}

/** For all requests of one configuration at once, and for those of one caller. */
const MAX_HELD_BYTES = 16 * EXPORT_BYTES_MAX;
const MAX_HELD_BYTES_PER_CALLER = 4 * EXPORT_BYTES_MAX;

const [PROTOBUF, JSON_TYPE] = ['application/x-protobuf', 'application/json'] as const;
/** The types of OTLP/HTTP, by what clients call them. */
const TYPES: Readonly<Record<string, string>> = {
  [PROTOBUF]: PROTOBUF,
  'application/protobuf': PROTOBUF,
  [JSON_TYPE]: JSON_TYPE,
};
/** A request without anything, in JSON; in protobuf it has no bytes. */
const EMPTY = Buffer.from('{}');

/** Codes of gRPC, which errors of OTLP/HTTP have, by HTTP status. */
const RPC_CODES: Readonly<Record<number, number>> = {
  400: 3,
  401: 16,
  403: 7,
  408: 4,
  413: 8,
  415: 3,
  429: 8,
  503: 14,
};
const RPC_INTERNAL = 13;

/**
 * OTLP/HTTP for the telemetry of coding clients: `POST /v1/traces`, `/v1/metrics` and `/v1/logs`, in protobuf or JSON, with the
 * credential of any other request. What is no larger than it may be is answered with 200, wherever it goes.
 */
export function clientTelemetryRoutes(options: ClientTelemetryOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const take = createTake(options);
  for (const signal of SIGNALS) {
    router.all(`/v1/${signal}`, async (req, res) => {
      const type = TYPES[mediaType(req.headers['content-type'])];
      try {
        const said = await take(signal, type, req);
        const body = said === undefined ? {} : { partialSuccess: { errorMessage: said } };
        send(res, 200, type, type === PROTOBUF ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body)));
      } catch (error) {
        refuse(res, error, { ...options, signal, type });
      }
    });
  }
  return router;
}

/** Makes the function that reads a request and hands it to the relay. */
function createTake({ config, relay, verify, clock }: ClientTelemetryOptions) {
  const budget = new BodyBudget(MAX_HELD_BYTES, MAX_HELD_BYTES_PER_CALLER);
  const rates = new CallerRates(clock);
  const { request_body_seconds: total_seconds, request_silence_seconds: silence_seconds } = config.server.timeouts;
  const limits = { max_bytes: EXPORT_BYTES_MAX, total_seconds, silence_seconds };
  return async (signal: Signal, type: string | undefined, req: IncomingMessage): Promise<string | undefined> => {
    if (req.method !== 'POST') throw methodNotAllowed(req, 'POST');
    const principal = await verifyCaller(req.headers, verify);
    if (type === undefined) {
      throw typeNotTaken(
        'The body must be an OTLP export request in protobuf ("content-type: application/x-protobuf") or JSON.',
      );
    }
    rates.begin(principal.id);
    const room = new HeldBytes(budget, principal.id);
    try {
      const { bytes } = await receiveContent(req, limits, room, clock);
      rates.count(principal.id, bytes.length);
      if (bytes.length === 0 || bytes.equals(EMPTY)) return nothingSaid(signal, config);
      relay.take({ signal, content_type: type, bytes, principal });
      return undefined;
    } finally {
      room.release();
    }
  };
}

/**
 * Who asks by sending nothing, as `appscli client --check` does, is told where nothing would go. Clients that send something are not:
 * they would log it each time.
 */
function nothingSaid(signal: Signal, { telemetry }: GatewayConfig): string | undefined {
  if (telemetry.forward_to.some((destination) => destination[signal])) return undefined;
  return `the gateway passes them on to nobody: telemetry.forward_to has no destination for ${signal}`;
}

function refuse(
  res: ServerResponse,
  error: unknown,
  { relay, log, signal, type }: ClientTelemetryOptions & { readonly signal: Signal; readonly type: string | undefined },
): void {
  let problem = error;
  if (!(problem instanceof StageError)) {
    log.error({ err: error, signal }, 'telemetry of a client could not be taken');
    problem = new StageError('internal_error', 'The gateway failed; its log says why.');
  }
  const { code, status, message, headers } = problem as StageError;
  relay.refused(signal, code);
  send(res, status, type, statusBody(type, RPC_CODES[status] ?? RPC_INTERNAL, message), headers);
}

/** `google.rpc.Status`, as OTLP/HTTP wants errors: the code is field 1, the message field 2. */
function statusBody(type: string | undefined, code: number, message: string): Buffer {
  if (type !== PROTOBUF) return Buffer.from(JSON.stringify({ code, message }));
  const text = Buffer.from(message);
  const length = text.length < 128 ? [text.length] : [(text.length & 127) | 128, text.length >> 7];
  return Buffer.concat([Buffer.from([0x08, code, 0x12, ...length]), text]);
}

function send(
  res: ServerResponse,
  status: number,
  type: string | undefined,
  body: Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendWhole(
    res,
    status,
    {
      ...headers,
      'content-type': type ?? JSON_TYPE,
      'content-length': body.length,
      'cache-control': 'no-store',
      [REQUEST_ID_HEADER]: randomUUID(),
    },
    body,
  );
}
