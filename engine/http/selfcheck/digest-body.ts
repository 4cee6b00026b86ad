import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { StageError } from '../../contract/errors.ts';
import type { Clock } from '../../contract/services.ts';
import type { BodyLimits } from '../../run/receive-body.ts';

/** What is kept of a body besides its digest: the beginning, for options in it. */
const KEPT_BYTES = 4096;

/** A body that was read and not kept. */
export interface DigestedBody {
  readonly bytes: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
  /** All of it where it is small; else undefined. */
  readonly whole: Buffer | undefined;
}

/** Reads a body to its end without keeping it. Raises body_too_large, request_timeout and bad_http. */
export function digestBody(req: IncomingMessage, limits: BodyLimits, clock: Clock): Promise<DigestedBody> {
  const hash = createHash('sha256');
  const kept: Buffer[] = [];
  const deadline = clock.monotonic() + limits.total_seconds * 1000;
  let bytes = 0;
  return new Promise((resolve, reject) => {
    const silence_ms = Math.min(limits.silence_seconds, limits.total_seconds) * 1000;
    const timer = clock.after(silence_ms, () => fail(late()));
    const stop = () => {
      timer.close();
      req.off('data', take).off('end', end).off('error', gone).off('close', gone);
    };
    const fail = (error: StageError) => {
      stop();
      reject(error);
    };
    const gone = () => fail(new StageError('bad_http', 'The connection ended before the request body was complete.'));
    const take = (chunk: Buffer) => {
      if (bytes <= KEPT_BYTES) kept.push(chunk);
      bytes += chunk.length;
      if (bytes > limits.max_bytes) fail(tooLarge(limits.max_bytes));
      else if (clock.monotonic() > deadline) fail(late());
      else {
        hash.update(chunk);
        timer.refresh();
      }
    };
    const end = () => {
      stop();
      resolve({ bytes, sha256: hash.digest('hex'), whole: bytes <= KEPT_BYTES ? Buffer.concat(kept) : undefined });
    };
    if (Number(req.headers['content-length'] ?? 0) > limits.max_bytes) fail(tooLarge(limits.max_bytes));
    else req.on('data', take).on('end', end).on('error', gone).on('close', gone);
  });
}

function tooLarge(limit_bytes: number): StageError {
  const message = `The request body is larger than ${limit_bytes} bytes, the most this gateway accepts.`;
  return new StageError('body_too_large', message, { details: { limit_bytes } });
}

function late(): StageError {
  return new StageError('request_timeout', 'The request body took too long to arrive.', {
    headers: { connection: 'close' },
  });
}
