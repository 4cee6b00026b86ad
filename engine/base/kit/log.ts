import { pino, stdSerializers } from 'pino';
import type { Log } from '../contract/services.ts';
import { jsonText, printable, printableLine, printableWord } from './text/printable.ts';

/** A log that redacts secrets. */
export interface RedactingLog extends Log {
  /** Redacts a text in messages, fields and stack traces from now on. */
  hide(secret: string): void;
  /** Also passes each record to a listener, as redacted JSON; `undefined` removes the listener. */
  tap(take: ((line: string) => void) | undefined): void;
}

const SECRET_FIELD =
  /^(authorization|proxy-authorization|x-api-key|api[-_]?key|cookie|set-cookie|password|secret|token|(?:access|refresh|id)[-_]token|client[-_]secret|(?:device|user)[-_]code|code[-_]verifier|nonce)$/i;

/** Formats of credentials: access and refresh tokens, signed tokens, bearer headers, passwords in URLs. */
const SECRET_SHAPES: readonly (readonly [RegExp, string])[] = [
  [/\b(gw[rs]?_)[A-Za-z0-9_-]{8,}/g, '$1[secret]'],
  [/\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){2,4}/g, '[secret]'],
  [/\bBearer +[^\s"']+/gi, 'Bearer [secret]'],
  [/(:\/\/[^\s/:@"']*:)[^\s/@"']+@/g, '$1[secret]@'],
];

const SHORTEST_SECRET = 4;
const LEVELS: Readonly<Record<number, string>> = { 20: 'debug', 30: 'info ', 40: 'WARN ', 50: 'ERROR' };
const RESERVED = new Set(['level', 'time', 'msg', 'err']);

/** A record as one line for people: local time, level, message, `name=value` pairs. */
function readable(record: Record<string, unknown>, stack_traces: boolean): string {
  const time = new Date(String(record.time)).toTimeString().slice(0, 8);
  const error = record.err as { message?: string; stack?: string } | undefined;
  const fields = Object.entries(record).filter(([name]) => !RESERVED.has(name));
  const textOf = (value: unknown) => (typeof value === 'string' ? printableWord(value) : jsonText(value));
  const pairs = fields.map(([name, value]) => ` ${name}=${textOf(value)}`).join('');
  const reason = error?.message === undefined ? '' : `: ${error.message}`;
  const stack = stack_traces && error?.stack !== undefined ? `\n${error.stack}` : '';
  const line = printableLine(`${time} ${LEVELS[Number(record.level)] ?? ''} ${String(record.msg)}${reason}${pairs}`);
  return line + printable(stack);
}

/** A log with a line per record: JSON, or text for a terminal, with stack traces under `debug`. */
export function createLog(options: {
  write(line: string): void;
  format: 'json' | 'readable';
  debug: boolean;
}): RedactingLog {
  const hidden = new Set<string>();
  const redact = (line: string): string => {
    let clean = line;
    for (const secret of hidden) clean = clean.replaceAll(secret, '[secret]');
    for (const [shape, replacement] of SECRET_SHAPES) clean = clean.replace(shape, replacement);
    return clean;
  };
  const holdsSecret = (text: string) => text.length >= SHORTEST_SECRET && redact(text) !== text;
  let tapped: ((line: string) => void) | undefined;
  const render = (line: string): string => {
    const record = JSON.parse(line, (name, value) => {
      // Redacting a part of a number would break the JSON.
      return SECRET_FIELD.test(name) || (typeof value === 'number' && holdsSecret(String(value))) ? '[secret]' : value;
    });
    tapped?.(redact(jsonText(record)));
    return `${options.format === 'json' ? jsonText(record) : readable(record, options.debug)}\n`;
  };
  const logger = pino(
    {
      level: options.debug ? 'debug' : 'info',
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: stdSerializers.err },
    },
    { write: (line: string) => options.write(redact(render(line))) },
  );
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    tap(take) {
      tapped = take;
    },
    hide(secret) {
      if (secret.length < SHORTEST_SECRET) return;
      hidden.add(secret);
      // Also in the escaped form inside a JSON string.
      hidden.add(jsonText(secret).slice(1, -1));
    },
  };
}
