import {
  CONSOLE_LINK_PATH,
  CONSOLE_PATH,
  CONSOLE_SESSION_PATH,
  CONSOLE_SIGN_IN_PATH,
  CONSOLE_SIGN_OUT_PATH,
  CONSOLE_SIGNED_OUT_PATH,
} from '../paths.ts';

const MAX_CHARS = 1000;
const NO_PAGES = [
  CONSOLE_SIGN_IN_PATH,
  CONSOLE_SESSION_PATH,
  CONSOLE_LINK_PATH,
  CONSOLE_SIGN_OUT_PATH,
  CONSOLE_SIGNED_OUT_PATH,
];
const BASE = 'http://gateway.invalid';

/**
 * The page of the console that somebody wants, as path and query below the public URL; its first page for whatever is none,
 * such as an address of another site.
 * @param prefix the path of the public URL, which may stand before that of the page.
 */
export function wantedPage(given: string | undefined, prefix: string): string {
  const text = prefix !== '' && given?.startsWith(`${prefix}/`) ? given.slice(prefix.length) : given;
  if (text === undefined || text.length > MAX_CHARS || !/^\/console(?:[/?]|$)/.test(text)) return CONSOLE_PATH;
  if (/[\\\s\p{Cc}]|\/\//u.test(text.split('?', 1)[0]!) || !URL.canParse(text, BASE)) return CONSOLE_PATH;
  const { origin, pathname, search } = new URL(text, BASE);
  const is_page = origin === BASE && (pathname === CONSOLE_PATH || pathname.startsWith(`${CONSOLE_PATH}/`));
  const page = `${pathname}${search}`;
  // Letters beyond ASCII take up to nine characters each, and a cookie keeps this one until the browser is back.
  return is_page && !NO_PAGES.includes(pathname.replace(/\/+$/, '')) && page.length <= MAX_CHARS ? page : CONSOLE_PATH;
}
