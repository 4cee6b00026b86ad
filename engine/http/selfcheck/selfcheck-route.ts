import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import type { GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import {
  SELFCHECK_EVENTS,
  SELFCHECK_PATH,
  SELFCHECK_TICK_MS,
  SELFCHECK_TICKS,
  type SelfcheckArrived,
} from '../../contract/selfcheck-endpoint.ts';
import type { BearerTokens, Clock, Log } from '../../contract/services.ts';
import type { Telemetry } from '../../contract/telemetry.ts';
import { compileRanges } from '../../kit/net/address-range.ts';
import { verifyCaller } from '../../kit/net/credentials.ts';
import { programVersion } from '../../kit/package-root.ts';
import { sendWhole } from '../../run/answer/send-whole.ts';
import { REQUEST_ID_HEADER } from '../../run/headers.ts';
import { identityOf } from '../request-identity.ts';
import { sendError } from '../send-error.ts';
import { CallerChecks } from './caller-checks.ts';
import { type DigestedBody, digestBody } from './digest-body.ts';

/** What a caller is told how its requests arrive with. */
export interface SelfcheckRouteOptions {
  readonly config: GatewayConfig;
  readonly verify: BearerTokens['verify'];
  readonly clock: Clock;
  readonly log: Log;
  readonly telemetry: Pick<Telemetry, 'requestRejected'>;
}

const INSTANCE = randomUUID();

/** Headers that are told: what clients say to models, and what the caller made up for this. None of them holds a credential. */
const TOLD =
  /^(?:[a-z0-9]{1,32}-(?:version|beta)|user-agent|accept|accept-encoding|content-type|content-encoding|x-selfcheck-[a-z0-9-]{1,40})$/;
const TOLD_MAX = 32;
const VALUE_LENGTH_MAX = 4096;
const QUERY_LENGTH_MAX = 1024;
const HOPS_MAX = 32;

/**
 * `POST /v1/selfcheck`: tells a caller with a credential how the request arrived, so that it is seen what proxies on the way
 * did to it; with `{"stream": true}` as a stream whose events are made at known times. Asks no upstream.
 */
export function selfcheckRoute(options: SelfcheckRouteOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const answer = createAnswer(options);
  router.all(SELFCHECK_PATH, async (req, res) => {
    try {
      await answer(req, res);
    } catch (error) {
      refuse(res, error, options);
    }
  });
  return router;
}

function createAnswer({ config, verify, clock }: SelfcheckRouteOptions) {
  const checks = new CallerChecks(clock);
  const { limits, timeouts, trusted_proxies } = config.server;
  const isTrusted = compileRanges(trusted_proxies);
  const body_limits = {
    max_bytes: limits.body_bytes,
    total_seconds: timeouts.request_body_seconds,
    silence_seconds: timeouts.request_silence_seconds,
  };
  return async (req: IncomingMessage, res: ServerResponse) => {
    if (req.method !== 'POST') {
      const message = `This path takes POST, not ${req.method}.`;
      throw new StageError('method_not_allowed', message, { headers: { allow: 'POST' } });
    }
    const principal = await verifyCaller(req.headers, verify);
    const check = checks.begin(principal.id);
    try {
      const body = await digestBody(req, body_limits, clock);
      check.count(body.bytes);
      const arrived = describe(req, body, { now: clock.now(), believed: isTrusted(req.socket.remoteAddress ?? '') });
      if (wantsStream(body)) await stream(res, arrived, clock);
      else send(res, arrived);
    } finally {
      check.end();
    }
  };
}

function wantsStream({ whole }: DigestedBody): boolean {
  try {
    return JSON.parse(whole?.toString('utf8') ?? '').stream === true;
  } catch {
    // The body is there to be digested; that it is JSON is asked of nobody.
    return false;
  }
}

function describe(
  { headers, url, httpVersion, socket }: IncomingMessage,
  { bytes, sha256 }: DigestedBody,
  { now, believed }: { readonly now: number; readonly believed: boolean },
): SelfcheckArrived {
  const query = url!.indexOf('?');
  const told = Object.entries(headers).filter(([name]) => TOLD.test(name));
  const hops = textOf(headers['x-forwarded-for'])?.split(',', HOPS_MAX) ?? [];
  return {
    type: SELFCHECK_EVENTS.arrived,
    version: programVersion(),
    instance: INSTANCE,
    time: new Date(now).toISOString(),
    query: query < 0 ? '' : url!.slice(query + 1, query + 1 + QUERY_LENGTH_MAX),
    http: httpVersion,
    tls: 'encrypted' in socket,
    credentials: (['authorization', 'x-api-key'] as const).filter((name) => headers[name] !== undefined),
    headers: Object.fromEntries(told.slice(0, TOLD_MAX).map(([name, value]) => [name, textOf(value)!])),
    forwarded: {
      for_hops: hops.length,
      proto: textOf(headers['x-forwarded-proto']) ?? null,
      host: textOf(headers['x-forwarded-host']) ?? null,
      believed,
    },
    body: { bytes, sha256 },
  };
}

function textOf(value: string | string[] | undefined): string | undefined {
  return value === undefined ? undefined : [value].flat().join(', ').slice(0, VALUE_LENGTH_MAX);
}

function send(res: ServerResponse, arrived: SelfcheckArrived): void {
  const body = JSON.stringify(arrived);
  const content = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  sendWhole(res, 200, { ...content, ...headersOf(res) }, body);
}

/** As streams of models are sent, so that what holds this one back holds those back as well. */
function stream(res: ServerResponse, arrived: SelfcheckArrived, clock: Clock): Promise<void> {
  const write = (event: string, data: object) =>
    res.write(`event: ${event}\ndata: ${JSON.stringify({ type: event, ...data })}\n\n`);
  res.writeHead(200, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no', ...headersOf(res) });
  write(SELFCHECK_EVENTS.arrived, arrived);
  return new Promise((resolve) => {
    let ticks = 0;
    const tick = () => {
      ticks++;
      write(SELFCHECK_EVENTS.tick, { index: ticks });
      if (ticks < SELFCHECK_TICKS) timer = clock.after(SELFCHECK_TICK_MS, tick);
      else {
        write(SELFCHECK_EVENTS.done, { ticks });
        res.end();
      }
    };
    let timer = clock.after(SELFCHECK_TICK_MS, tick);
    res.on('close', () => {
      timer.close();
      resolve();
    });
  });
}

function headersOf(res: ServerResponse): Record<string, string> {
  return {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    [REQUEST_ID_HEADER]: identityOf(res).request_id,
  };
}

function refuse(res: ServerResponse, error: unknown, { log, telemetry }: SelfcheckRouteOptions): void {
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  let problem = error;
  if (!(problem instanceof StageError)) {
    log.error({ err: error, request_id: identityOf(res).request_id }, 'a self-check could not be answered');
    problem = new StageError('internal_error', 'The gateway failed; its log says why.', { cause: error });
  }
  const { status, code } = sendError(res, SELFCHECK_PATH, problem as StageError);
  telemetry.requestRejected(status, code);
}
