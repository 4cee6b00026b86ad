import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import type { GatewayConfig } from '../contract/config.ts';
import { StageError } from '../contract/errors.ts';
import type { BearerTokens, Clock, Log } from '../contract/services.ts';
import { mediaType } from '../kit/media-type.ts';
import { verifyCaller } from '../kit/net/credentials.ts';
import { sendWhole } from '../run/answer/send-whole.ts';
import { BodyBudget, HeldBytes } from '../run/body-budget.ts';
import { receiveContent } from '../run/content-encoding.ts';
import { REQUEST_ID_HEADER } from '../run/headers.ts';
import { CallerRates } from '../telemetry/relay/caller-rates.ts';
import { type Encoding, EXPORT_BYTES_MAX, SIGNALS, type Signal } from '../telemetry/relay/otlp/messages.ts';
import type { TakenExport, TelemetryRelay } from '../telemetry/relay/relay.ts';

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

const ENCODINGS: Readonly<Record<string, Encoding>> = {
  'application/x-protobuf': 'protobuf',
  'application/protobuf': 'protobuf',
  'application/json': 'json',
};

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
 * credential of any other request. What can be read is answered with 200, wherever it goes.
 */
export function clientTelemetryRoutes(options: ClientTelemetryOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const take = createTake(options);
  for (const signal of SIGNALS) {
    router.all(`/v1/${signal}`, async (req, res) => {
      const encoding = ENCODINGS[mediaType(req.headers['content-type'])];
      try {
        const taken = await take(signal, encoding, req);
        send(res, 200, encoding ?? 'json', await successOf(taken, signal, encoding ?? 'json'));
      } catch (error) {
        await refuse(res, error, { ...options, signal, encoding: encoding ?? 'json' });
      }
    });
  }
  return router;
}

/**
 * Who asks by sending nothing, as `appscli client --check` does, is told where nothing would go. Clients that send something are not:
 * they would log it each time.
 */
async function successOf({ items, destinations }: TakenExport, signal: Signal, encoding: Encoding): Promise<Buffer> {
  const { successBody, warningBody } = await import('../telemetry/relay/otlp/codec.ts');
  if (items > 0 || destinations > 0) return successBody(encoding);
  return warningBody(
    signal,
    encoding,
    `the gateway passes them on to nobody: telemetry.forward_to has no destination for ${signal}`,
  );
}

/** Makes the function that reads a request and hands it to the relay. */
function createTake({ config, relay, verify, clock }: ClientTelemetryOptions) {
  const budget = new BodyBudget(MAX_HELD_BYTES, MAX_HELD_BYTES_PER_CALLER);
  const rates = new CallerRates(clock);
  const { request_body_seconds: total_seconds, request_silence_seconds: silence_seconds } = config.server.timeouts;
  const limits = { max_bytes: EXPORT_BYTES_MAX, total_seconds, silence_seconds };
  return async (signal: Signal, encoding: Encoding | undefined, req: IncomingMessage) => {
    if (req.method !== 'POST') {
      const message = `This path takes POST, not ${req.method}.`;
      throw new StageError('method_not_allowed', message, { headers: { allow: 'POST' } });
    }
    const principal = await verifyCaller(req.headers, verify);
    if (encoding === undefined) {
      throw notTaken(
        'The body must be an OTLP export request in protobuf ("content-type: application/x-protobuf") or JSON.',
      );
    }
    rates.begin(principal.id);
    const room = new HeldBytes(budget, principal.id);
    try {
      const { bytes } = await receiveContent(req, limits, room, clock);
      rates.count(principal.id, bytes.length);
      return await relay.receive({ signal, encoding, bytes, principal });
    } finally {
      room.release();
    }
  };
}

function notTaken(message: string): StageError {
  return new StageError('invalid_request', message, { status: 415 });
}

async function refuse(
  res: ServerResponse,
  error: unknown,
  { relay, log, signal, encoding }: ClientTelemetryOptions & { readonly signal: Signal; readonly encoding: Encoding },
): Promise<void> {
  let problem = error;
  if (!(problem instanceof StageError)) {
    log.error({ err: error, signal }, 'telemetry of a client could not be taken');
    problem = new StageError('internal_error', 'The gateway failed; its log says why.');
  }
  const { code, status, message, headers } = problem as StageError;
  relay.refused(signal, code);
  const { statusBody } = await import('../telemetry/relay/otlp/codec.ts');
  const body = statusBody(encoding, RPC_CODES[status] ?? RPC_INTERNAL, message);
  send(res, status, encoding, body, headers);
}

function send(
  res: ServerResponse,
  status: number,
  encoding: Encoding,
  body: Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendWhole(
    res,
    status,
    {
      ...headers,
      'content-type': encoding === 'json' ? 'application/json' : 'application/x-protobuf',
      'content-length': body.length,
      'cache-control': 'no-store',
      [REQUEST_ID_HEADER]: randomUUID(),
    },
    body,
  );
}
