import { printable } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import type { DeviceCode } from '../../client/answers.ts';
import type { Terminal } from '../terminal.ts';

const WIDTH = 80;
const NOTICE_INDENT = '  | ';
const NOTICE_LINES_MAX = 20;
/** A word that fills a line. */
const LONG_WORD = /\S{76}/g;

/** Instructions for a device code, in 80 columns except for long addresses. */
export function describeCode(
  code: DeviceCode,
  how: { readonly base_url: string; readonly opens: boolean; readonly bold: boolean },
): string {
  const page = code.verification_uri_complete ?? code.verification_uri;
  const strong = (text: string) => (how.bold ? `\x1b[1m${text}\x1b[22m` : text);
  const first = how.opens
    ? 'Your browser opens this page; otherwise open it yourself:'
    : 'Open this page in a browser:';
  const second =
    code.verification_uri_complete === undefined
      ? 'Enter this code there:'
      : 'Continue only if the page shows this code:';
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

/** The gateway's notice, marked with a bar to distinguish it from this program's text. */
function describeNotice(notice: string | undefined): string[] {
  if (notice === undefined || notice.trim() === '') return [];
  const lines = printable(notice.trim().replace(/[^\S\n]+/g, ' '))
    .split('\n')
    .slice(0, NOTICE_LINES_MAX)
    .flatMap((line) => wrapText(line.replace(LONG_WORD, '$& '), WIDTH, NOTICE_INDENT));
  return ['', 'The gateway says:', '', ...lines.map((line) => line.trimEnd())];
}

/** Progress of a sign-in: one updated line on a terminal, else a line for each change. */
export function signInProgress(terminal: Terminal): {
  show(left_seconds: number, problem: string | undefined): void;
  end(): void;
} {
  let shown: string | undefined;
  const show = (left_seconds: number, problem: string | undefined) => {
    const left = `${Math.floor(left_seconds / 60)}:${String(left_seconds % 60).padStart(2, '0')}`;
    if (terminal.interactive) {
      const line =
        problem === undefined
          ? `Waiting for sign-in (${left} left, Ctrl-C stops)`
          : `Retrying (${left} left): ${problem}`;
      shown = line;
      // Leave one column free: some terminals wrap when the last one is full.
      return terminal.rewrite(line.slice(0, Math.max(terminal.columns, 20) - 1));
    }
    const news = problem ?? '';
    if (shown === news) return;
    shown = news;
    terminal.info(
      problem === undefined
        ? `Waiting for sign-in; the code is valid for ${left} minutes.\n`
        : `Retrying: ${problem}\n`,
    );
  };
  return {
    show,
    end() {
      if (terminal.interactive && shown !== undefined) terminal.rewrite('');
    },
  };
}
