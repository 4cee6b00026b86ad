import type { IncomingHttpHeaders } from 'node:http';
import type { Device } from '../../identity/sessions/device-grants.ts';
import { printable } from '../../kit/text/printable.ts';

const CLIENT_CHARS = 80;
const ADDRESS_CHARS = 64;

/** A text from outside as it may stand in a log line or a table: printable, shortened. */
export function shownText(text: string, max_chars: number): string {
  const clean = printable(text.slice(0, max_chars));
  return clean.length <= max_chars ? clean : clean.slice(0, max_chars);
}

/**
 * What a request says of the program that sent it: what it calls itself in the parameter `surface`, else the first product of
 * its user-agent header, which may be that of a library it uses. Anybody can say anything.
 */
export function deviceOf(headers: IncomingHttpHeaders, address: string, surface?: string): Device {
  const [product = ''] = (headers['user-agent'] ?? '').trim().split(/\s/, 1);
  // Node gives header bytes beyond ASCII as Latin-1, which is rarely what they were.
  const ascii = product.replace(/[^\x21-\x7e]/g, '?');
  const known = surface !== undefined && PROGRAM_NAME.test(surface) ? surface : undefined;
  return {
    client: shownText(known === undefined ? ascii : nameOf(known, ascii), CLIENT_CHARS),
    client_address: shownText(address, ADDRESS_CHARS),
    surface: known,
  };
}

/** A name such as `claude_code`. */
const PROGRAM_NAME = /^[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*$/i;

/** The name as people write it, with the version where the user-agent header is about the same program. */
function nameOf(surface: string, product: string): string {
  const name = surface.replace(/(?:^|[_-])([a-z0-9])/gi, (_, letter: string) => ` ${letter.toUpperCase()}`).trim();
  const [agent = '', version] = product.split('/');
  const same = agent.toLowerCase().replaceAll('-', '_') === surface.toLowerCase().replaceAll('-', '_');
  return same && version ? `${name} ${version}` : name;
}
