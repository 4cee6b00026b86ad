import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Clock, JsonValue, RequestBody } from '../api.ts';
import { StageError } from '../errors.ts';
import { afterSpace, CLOSE_BRACE, findTopLevelKeys, OPEN_BRACE } from './json-keys.ts';

/** How many request body bytes the process holds, shared by all requests, so that stuck clients can't fill memory. */
export class BodyBudget {
  /** Most bytes held at once; a reload can change it. */
  limit_bytes: number;
  #held = 0;

  constructor(limit_bytes: number) {
    this.limit_bytes = limit_bytes;
  }

  /** Raises overloaded. */
  take(bytes: number): void {
    if (this.#held + bytes > this.limit_bytes) {
      throw new StageError(
        'overloaded',
        'The gateway holds as many request bytes as it may; send the request again shortly.',
        {
          headers: { 'retry-after': '1' },
        },
      );
    }
    this.#held += bytes;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

export interface BodyLimits {
  readonly max_bytes: number;
  /** Longest silence of a sending client, in seconds. */
  readonly idle_seconds: number;
}

function tooLarge(limit: number): StageError {
  return new StageError(
    'body_too_large',
    `The request body is larger than ${limit} bytes, the most this gateway accepts.`,
    {
      details: { limit_bytes: limit },
    },
  );
}

function slow(seconds: number): StageError {
  return new StageError('request_timeout', `No byte of the request body arrived for ${seconds} seconds.`, {
    headers: { connection: 'close' },
  });
}

/** Collects a request body. Raises body_too_large (before reading when the length is declared), request_timeout, overloaded. */
export function receiveBody(
  req: IncomingMessage,
  limits: BodyLimits,
  budget: BodyBudget,
  clock: Clock,
): Promise<Buffer> {
  if (Number(req.headers['content-length'] ?? 0) > limits.max_bytes) return Promise.reject(tooLarge(limits.max_bytes));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const timer = clock.after(limits.idle_seconds * 1000, () => {
      fail(slow(limits.idle_seconds));
    });
    const stop = () => {
      timer.close();
      req.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone);
    };
    const fail = (error: Error) => {
      stop();
      budget.give(size);
      chunks.length = 0;
      reject(error);
    };
    const onData = (chunk: Buffer) => {
      if (size + chunk.length > limits.max_bytes) return fail(tooLarge(limits.max_bytes));
      try {
        budget.take(chunk.length);
      } catch (error) {
        return fail(error as Error);
      }
      size += chunk.length;
      chunks.push(chunk);
      timer.refresh();
    };
    const onEnd = () => {
      stop();
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size));
    };
    const onGone = () => fail(new StageError('bad_http', 'The connection ended before the request body was complete.'));
    req.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone);
  });
}

/** A received body: the bytes that will travel, and on demand a parsed copy. */
export class HeldBody implements RequestBody {
  bytes: Buffer;
  replaced = false;
  readonly #onRewrite: (key: string) => void;

  /** @param onRewrite told before a rewrite happens; throws to refuse it */
  constructor(bytes: Buffer, onRewrite: (key: string) => void) {
    this.bytes = bytes;
    this.#onRewrite = onRewrite;
  }

  json(): unknown {
    if (!isUtf8(this.bytes)) {
      throw new StageError('invalid_encoding', 'The request body is not valid UTF-8; JSON must be sent as UTF-8.');
    }
    try {
      return JSON.parse(this.bytes.toString('utf8'));
    } catch (error) {
      throw new StageError(
        'invalid_json',
        `The request body is not valid JSON: ${describeSyntaxError(error, this.bytes)}.`,
      );
    }
  }

  countKeys(names: readonly string[]): number[] {
    const found = findTopLevelKeys(this.bytes, names);
    return names.map((name) => found.get(name)!.length);
  }

  value(key: string): unknown {
    const range = findTopLevelKeys(this.bytes, [key]).get(key)!.at(-1);
    return range && (JSON.parse(this.bytes.toString('utf8', range.start, range.end)) as unknown);
  }

  rewrite(key: string, value: JsonValue): void {
    const range = findTopLevelKeys(this.bytes, [key]).get(key)!.at(-1);
    const text = JSON.stringify(value);
    if (range === undefined) this.#add(key, text);
    else {
      this.#onRewrite(key);
      this.#splice(range.start, range.end, text);
    }
  }

  /** Puts a key in front of the others. */
  #add(key: string, text: string): void {
    const open = afterSpace(this.bytes, 0);
    if (this.bytes[open] !== OPEN_BRACE) throw new Error(`the body is no JSON object that could have a key "${key}"`);
    this.#onRewrite(key);
    const empty = this.bytes[afterSpace(this.bytes, open + 1)] === CLOSE_BRACE;
    this.#splice(open + 1, open + 1, `${JSON.stringify(key)}:${text}${empty ? '' : ','}`);
  }

  #splice(start: number, end: number, text: string): void {
    this.bytes = Buffer.concat([this.bytes.subarray(0, start), Buffer.from(text), this.bytes.subarray(end)]);
  }

  replace(json: string): void {
    this.#onRewrite('*');
    this.bytes = Buffer.from(json);
    this.replaced = true;
  }
}

/** Says where JSON breaks without quoting the text around it, which may be prompt text. */
function describeSyntaxError(error: unknown, bytes: Buffer): string {
  if (bytes.length === 0) return 'it is empty';
  const message = error instanceof Error ? error.message : '';
  const place = /line (\d+) column (\d+)/.exec(message);
  if (place !== null) return `it breaks at line ${place[1]}, column ${place[2]}`;
  return message.includes('end of JSON input') ? 'it ends too early' : 'it does not parse';
}
