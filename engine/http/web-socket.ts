import type { IncomingMessage, ServerResponse } from 'node:http';
import { StageError } from '../contract/errors.ts';
import { sendError } from './send-error.ts';

/** Whether a request asks for a WebSocket. Other protocols may be offered on any request and are ignored. */
export function wantsWebSocket({ headers, httpVersion }: IncomingMessage): boolean {
  const { upgrade } = headers;
  return upgrade !== undefined && httpVersion === '1.1' && /(?:^|,)\s*websocket\s*(?:,|\/|$)/i.test(upgrade);
}

/** Answers 426 and names the protocol to use instead (RFC 9110 section 15.5.22); the connection can be used again. */
export function refuseWebSocket(res: ServerResponse, path: string): void {
  const problem =
    'This is a WebSocket handshake; model requests are taken as plain HTTP. Send a POST request to this path, or switch WebSockets off in the client.';
  const headers = { connection: res.shouldKeepAlive ? 'upgrade' : 'upgrade, close', upgrade: 'HTTP/1.1' };
  sendError(res, path, new StageError('upgrade_required', problem, { headers }));
}
