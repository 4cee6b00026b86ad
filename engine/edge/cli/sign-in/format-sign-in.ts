import { printable } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import type { DeviceCode } from '../../client/answers.ts';
import type { Terminal } from '../terminal.ts';

const WIDTH = 80;
const NOTICE_INDENT = '  | ';
const NOTICE_LINES_MAX = 20;
/** As much of a word as fits on one line. */
const LONG_WORD = /\S{76}/g;

/** What a person has to do with a device code, in 80 columns; a page's address may be longer. */
export function describeCode(
  code: DeviceCode,
  how: { readonly base_url: string; readonly opens: boolean; readonly bold: boolean },
): string {
  const page = code.verification_uri_complete ?? code.verification_uri;
  const strong = (text: string) => (how.bold ? `\x1b[1m${text}\x1b[22m` : text);
  const first = how.opens ? 'Your browser opens this page; if it does not, open it:' : 'Open this page in a browser:';
  const second =
    code.verification_uri_complete === undefined
      ? 'Enter this code there:'
      : 'Go on there only if it shows the same code as here:';
  return [
    `Signing in at ${how.base_url}.`,
    ...describeNotice(code.login_notice),
    '',
    first,
    '',
    `  ${page}`,
    '',
    second,
    '',
    `  ${strong(code.user_code)}`,
    '',
    '',
  ].join('\n');
}

/** The gateway's own words stand behind a bar, so that they can't pass for ours. */
function describeNotice(notice: string | undefined): string[] {
  if (notice === undefined || notice.trim() === '') return [];
  const lines = printable(notice.trim().replace(/[^\S\n]+/g, ' '))
    .split('\n')
    .slice(0, NOTICE_LINES_MAX)
    .flatMap((line) => wrapText(line.replace(LONG_WORD, '$& '), WIDTH, NOTICE_INDENT));
  return ['', 'The gateway says:', '', ...lines.map((line) => line.trimEnd())];
}

/** Shows that a sign-in is waited for: on a terminal one line that changes, elsewhere a line for what is new. */
export function signInProgress(terminal: Terminal): {
  show(left_seconds: number, trouble: string | undefined): void;
  end(): void;
} {
  let said: string | undefined;
  const show = (left_seconds: number, trouble: string | undefined) => {
    const left = `${Math.floor(left_seconds / 60)}:${String(left_seconds % 60).padStart(2, '0')}`;
    if (terminal.interactive) {
      const line =
        trouble === undefined ? `Waiting for you (${left} left, Ctrl-C stops)` : `Trying on (${left} left): ${trouble}`;
      said = line;
      // One column stays free: some terminals begin a new line when the last one is full.
      return terminal.rewrite(line.slice(0, Math.max(terminal.columns, 20) - 1));
    }
    const news = trouble ?? '';
    if (said === news) return;
    said = news;
    terminal.info(
      trouble === undefined ? `Waiting for you; the code is good for ${left} minutes.\n` : `Trying on: ${trouble}\n`,
    );
  };
  return {
    show,
    end() {
      if (terminal.interactive && said !== undefined) terminal.rewrite('');
    },
  };
}
