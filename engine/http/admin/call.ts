import type { IncomingMessage } from 'node:http';
import type { DescribedOperation } from '../../admin/description.ts';
import { type Sent, showName } from '../../admin/input.ts';
import type { GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { Clock } from '../../contract/services.ts';
import { KeyTable } from '../../kit/json/key-names.ts';
import { jsonTypeProblem } from '../../kit/media-type.ts';
import { HeldBody } from '../../run/body.ts';
import { BodyBudget, HeldBytes } from '../../run/body-budget.ts';
import { receiveContent } from '../../run/content-encoding.ts';

const MAX_BODY_BYTES = 65_536;
/** For all requests of one configuration at once. */
const MAX_BUFFERED_BYTES = 16 * MAX_BODY_BYTES;
const MAX_BUFFERED_BYTES_PER_CALLER = 4 * MAX_BODY_BYTES;

type AdminRequest = IncomingMessage & { originalUrl: string; params: Record<string, unknown> };

/** Reads what a request says. Raises invalid_request, invalid_json, body_too_large, request_timeout. */
export type ReadCall = (req: AdminRequest, operation: DescribedOperation, caller_id: string) => Promise<Sent>;

/** Makes the function that reads requests; their bodies share one budget. */
export function createReadCall({ server }: GatewayConfig, clock: Clock): ReadCall {
  const budget = new BodyBudget(MAX_BUFFERED_BYTES, MAX_BUFFERED_BYTES_PER_CALLER);
  const { request_body_seconds: total_seconds, request_silence_seconds: silence_seconds } = server.timeouts;
  const limits = { max_bytes: MAX_BODY_BYTES, total_seconds, silence_seconds };
  const readBody = async (req: IncomingMessage, schema: object, caller_id: string): Promise<unknown> => {
    const { 'content-length': length, 'transfer-encoding': coding } = req.headers;
    if (coding === undefined && (length === undefined || length === '0')) return {};
    demandJson(req);
    const room = new HeldBytes(budget, caller_id);
    try {
      const { bytes } = await receiveContent(req, limits, room, clock);
      const held = new HeldBody(bytes, () => {});
      const { properties = {} } = schema as { readonly properties?: object };
      return await held.json(new KeyTable(Object.keys(properties).map((name) => ({ name, decides: 'top' }))));
    } finally {
      room.release();
    }
  };
  return async (req, { path_names, body }, caller_id) => ({
    path: Object.fromEntries(path_names.map((name) => [name, String(req.params[name] ?? '')])),
    query: { ...resumption(req), ...readQuery(req.originalUrl) },
    body: body === undefined ? undefined : await readBody(req, body, caller_id),
  });
}

/** Where a feed goes on that was cut off, as readers of feeds say it by themselves. */
function resumption({ headers }: IncomingMessage): Record<string, string> {
  const id = headers['last-event-id'];
  return typeof id === 'string' && /^\d{1,15}$/.test(id) ? { after: id } : {};
}

function readQuery(url: string): Record<string, string> {
  const at = url.indexOf('?');
  const values: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(at < 0 ? '' : url.slice(at + 1))) {
    if (Object.hasOwn(values, name)) {
      const message = `The parameter ${showName(name)} is there more than once; send it once.`;
      throw new StageError('invalid_request', message);
    }
    values[name] = value;
  }
  return values;
}

function demandJson({ headers }: IncomingMessage): void {
  if (jsonTypeProblem(headers['content-type'] ?? '') !== undefined) {
    throw notTaken('The body must be JSON, sent with "content-type: application/json".');
  }
}

function notTaken(message: string): StageError {
  return new StageError('invalid_request', message, { status: 415 });
}
