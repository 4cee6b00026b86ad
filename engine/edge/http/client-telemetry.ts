import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import { EXPORT_BYTES_MAX, SIGNALS, type Signal } from '../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { BearerTokens, Clock, Log } from '../../base/contract/services.ts';
import { mediaType } from '../../base/kit/media-type.ts';
import { verifyCaller } from '../../base/kit/net/credentials.ts';
import { createRateLimit } from '../../domain/identity/sessions/attempt-limits.ts';
import type { TelemetryRelay } from '../../domain/telemetry/relay.ts';
import { sendWhole } from '../../pipeline/run/answer.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { createBodyReceiver } from './body-receiver.ts';
import { methodNotAllowed, unsupportedMediaType } from './send-error.ts';

/** Rate limit per caller, in bytes after decompression: burst and refill. */
const BURST_BYTES = 32 * 1024 * 1024;
const BYTES_PER_SECOND = 512 * 1024;
/** Cost of a request in addition to its bytes: allows 32 empty requests a second. */
const REQUEST_BYTES = 16 * 1024;

export interface ClientTelemetryOptions {
  readonly config: GatewayConfig;
  readonly relay: TelemetryRelay;
  readonly verify: BearerTokens['verify'];
  readonly clock: Clock;
  readonly log: Log;
}

const [PROTOBUF, JSON_TYPE] = ['application/x-protobuf', 'application/json'] as const;
/** Canonical media types of OTLP/HTTP, by the names that clients send. */
const TYPES: Readonly<Record<string, string>> = {
  [PROTOBUF]: PROTOBUF,
  'application/protobuf': PROTOBUF,
  [JSON_TYPE]: JSON_TYPE,
};
/** An empty export request in JSON; in protobuf it has no bytes. */
const EMPTY = Buffer.from('{}');

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
 * same credentials as model requests. Responds 200 to every valid export, whether or not a destination receives it.
 */
export function clientTelemetryRoutes(options: ClientTelemetryOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const receive = createReceive(options);
  for (const signal of SIGNALS) {
    router.all(`/v1/${signal}`, async (req, res) => {
      const type = TYPES[mediaType(req.headers['content-type'])];
      try {
        const warning = await receive(signal, type, req);
        const body = warning === undefined ? {} : { partialSuccess: { errorMessage: warning } };
        send(res, 200, type, type === PROTOBUF ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body)));
      } catch (error) {
        sendRejection(res, error, { ...options, signal, type });
      }
    });
  }
  return router;
}

function createReceive({ config, relay, verify, clock }: ClientTelemetryOptions) {
  const receiveBody = createBodyReceiver(config, EXPORT_BYTES_MAX, clock);
  const rates = createRateLimit({ clock, most: BURST_BYTES, window_seconds: BURST_BYTES / BYTES_PER_SECOND });
  return async (signal: Signal, type: string | undefined, req: IncomingMessage): Promise<string | undefined> => {
    if (req.method !== 'POST') throw methodNotAllowed(req, 'POST');
    const principal = await verifyCaller(req.headers, verify);
    if (type === undefined) {
      throw unsupportedMediaType(
        'The body must be an OTLP export request in protobuf ("content-type: application/x-protobuf") or JSON.',
      );
    }
    const wait = rates.take(principal.id, REQUEST_BYTES);
    if (wait !== undefined) throw tooMuch(wait.retry_after_seconds);
    return receiveBody(req, principal.id, (bytes) => {
      rates.giveBack(principal.id, -bytes.length);
      if (bytes.length === 0 || bytes.equals(EMPTY)) return missingDestination(signal, config);
      relay.take({ signal, content_type: type, bytes, principal });
      return undefined;
    });
  };
}

function tooMuch(seconds: number): StageError {
  const problem = `Telemetry limit of ${BYTES_PER_SECOND} bytes a second exceeded; retry in ${seconds} seconds.`;
  return new StageError('rate_limit_exceeded', problem, { headers: { 'retry-after': String(seconds) } });
}

function missingDestination(signal: Signal, { telemetry }: GatewayConfig): string | undefined {
  if (telemetry.forward_to.some((destination) => destination[signal])) return undefined;
  return `the gateway drops them: telemetry.forward_to has no destination for ${signal}`;
}

function sendRejection(
  res: ServerResponse,
  error: unknown,
  { relay, log, signal, type }: ClientTelemetryOptions & { readonly signal: Signal; readonly type: string | undefined },
): void {
  let problem = error;
  if (!(problem instanceof StageError)) {
    log.error({ err: error, signal }, 'could not receive telemetry of a client');
    problem = new StageError('internal_error', 'Internal error; see the log of the gateway.');
  }
  const { code, status, message, headers } = problem as StageError;
  relay.refused(signal, code);
  send(res, status, type, statusBody(type, RPC_CODES[status] ?? RPC_INTERNAL, message), headers);
}

/** `google.rpc.Status`, the error format of OTLP/HTTP: field 1 is the code, field 2 the message. */
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
