import type { IncomingHttpHeaders } from 'node:http';
import { printable } from '../../diagnostics/printable.ts';
import type { Device } from '../../services/identity/device-grants.ts';

const CLIENT_CHARS = 80;
const ADDRESS_CHARS = 64;

/** A text from outside as it may stand in a log line or a table: printable, shortened. */
export function shownText(text: string, max_chars: number): string {
  const clean = printable(text.slice(0, max_chars));
  return clean.length <= max_chars ? clean : clean.slice(0, max_chars);
}

/** What a request says of the program that sent it: the first product of its user-agent header. */
export function deviceOf(headers: IncomingHttpHeaders, address: string): Device {
  const [product = ''] = (headers['user-agent'] ?? '').trim().split(/\s/, 1);
  // Node gives header bytes beyond ASCII as Latin-1, which is rarely what they were.
  const ascii = product.replace(/[^\x21-\x7e]/g, '?');
  return {
    client: shownText(ascii, CLIENT_CHARS),
    client_address: shownText(address, ADDRESS_CHARS),
  };
}
