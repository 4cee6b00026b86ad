import { randomUUID } from 'node:crypto';
import http from 'node:http';
import type { Socket } from 'node:net';
import type { NextFunction, Request, Response } from 'express';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import { definitionOf, definitionOfPath } from '../../domain/protocols/definitions.ts';
import type { ProtocolErrors } from '../../domain/protocols/errors.ts';
import { endSocket, isUnheard, sendWhole } from '../../pipeline/run/answer.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { identityOf, pathOf } from './request-identity.ts';

type Limits = GatewayConfig['server']['limits'];

function compose(errors: ProtocolErrors, error: StageError, request_id: string) {
  const body = errors.body(error, request_id);
  const headers = {
    ...errors.headers(error),
    'content-length': Buffer.byteLength(body),
    [REQUEST_ID_HEADER]: request_id,
  };
  return { headers, body };
}

/** Sends an error for a request outside the pipelines, in the envelope of its path's protocol. @returns the error */
export function sendError(res: http.ServerResponse, path: string, error: StageError): StageError {
  const identity = identityOf(res);
  identity.error = error.code;
  const { headers, body } = compose(definitionOfPath(path, res.req?.headers).errors, error, identity.request_id);
  sendWhole(res, error.status, headers, body);
  return error;
}

/** 405 for a path that supports other methods. */
export function methodNotAllowed({ method }: Pick<http.IncomingMessage, 'method'>, allow: string): StageError {
  return new StageError('method_not_allowed', `This path supports ${allow}, not ${method}.`, { headers: { allow } });
}

/** 415 for a body of an unsupported media type. */
export function unsupportedMediaType(message: string): StageError {
  return new StageError('invalid_request', message, { status: 415 });
}

/** Sends the error of an Express route; passes internal errors on to the handler that logs them. */
export function answerOrPass(problem: unknown, req: Request, res: Response, next: NextFunction): void {
  if (!(problem instanceof StageError) || problem.status >= 500 || res.headersSent) next(problem);
  else sendError(res, pathOf(req.originalUrl), problem);
}

/** Headers of an uncacheable response. */
export function answerHeaders(res: http.ServerResponse, type: string) {
  return {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    [REQUEST_ID_HEADER]: identityOf(res).request_id,
  };
}

export function sendJson(res: http.ServerResponse, status: number, body: object, more: Record<string, string> = {}) {
  const bytes = Buffer.from(jsonText(body));
  const headers = { ...answerHeaders(res, 'application/json'), 'content-length': bytes.length, ...more };
  res.writeHead(status, headers).end(bytes);
}

/** Sends an error for bytes that Node's HTTP parser rejected, and closes the connection. @returns it, if it was sent */
export function answerClientError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  limits: Limits,
): StageError | undefined {
  if (isUnheard(socket)) return undefined;
  // An unused connection that timed out has no request.
  const unused = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0;
  if (error.code === 'ECONNRESET' || unused || !socket.writable) {
    socket.destroy();
    return undefined;
  }
  return writeErrorResponse(socket, explain(error, limits));
}

/** Writes an error response to a socket without a response object, and closes it. @returns the error */
export function writeErrorResponse(socket: Socket, problem: StageError): StageError {
  const { headers, body } = compose(definitionOf(undefined).errors, problem, randomUUID());
  const lines = Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`);
  endSocket(socket, `HTTP/1.1 ${problem.status} ${http.STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`);
  return problem;
}

function explain(error: NodeJS.ErrnoException, limits: Limits): StageError {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW': {
      const problem = `The request line and headers are larger than ${limits.header_bytes} bytes.`;
      return new StageError('headers_too_large', problem, { details: { limit_bytes: limits.header_bytes } });
    }
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new StageError('request_timeout', 'The request took too long to arrive.');
    default:
      return new StageError('bad_http', 'The request is not well-formed HTTP/1.1.');
  }
}

/** Whether a request is a WebSocket handshake. Other upgrades are ignored. */
export function wantsWebSocket({ headers, httpVersion }: http.IncomingMessage): boolean {
  const { upgrade } = headers;
  return upgrade !== undefined && httpVersion === '1.1' && /(?:^|,)\s*websocket\s*(?:,|\/|$)/i.test(upgrade);
}

/** 426 with the protocol to use instead (RFC 9110 section 15.5.22); keeps the connection reusable. */
export function webSocketRefusal(res: http.ServerResponse): StageError {
  const problem =
    'WebSockets are not supported. Send a POST request to this path, or switch WebSockets off in the client.';
  const headers = { connection: res.shouldKeepAlive ? 'upgrade' : 'upgrade, close', upgrade: 'HTTP/1.1' };
  return new StageError('upgrade_required', problem, { headers });
}
