import { ATTEMPT_REASONS, DROP_REASONS } from '../../contract/forwarding.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { outcomeOf } from '../../upstreams/attempts/error-meaning.ts';
import {
  type AttemptOutcome,
  FAILOVER_NOTES,
  FAILOVER_TABLE,
  type FailoverRow,
} from '../../upstreams/failover-table.ts';
import { formatList } from '../table.ts';

/** What the columns of the table say, in its order. */
export const FAILOVER_COLUMNS: readonly (readonly [title: string, meaning: string])[] = [
  ['outcome', 'how an attempt ended before the client got anything'],
  ['certainty', 'what is known of the request then: not_sent, possibly_accepted, answered, or it depends (-)'],
  [
    'again',
    'to the same upstream: at once on a fresh connection, or once after a wait; lone: only if no other is left',
  ],
  ['next', 'to the next upstream; if: only with routing.attempts.unconfirmed'],
  ['breaker', 'what it counts as: success, failure, or the reason why requests stay away for a time'],
  ['billed', 'whether the upstream may bill it; as_reported: what its answer says'],
];

const AGAIN: Readonly<Record<FailoverRow['again'], string>> = {
  no: 'no',
  fresh_connection: 'at once',
  after_wait: 'wait',
  after_wait_lone: 'wait, lone',
};

/** The cells of a row, for the columns of the table. */
export function failoverCells([outcome, row]: readonly [string, FailoverRow]): readonly string[] {
  const { certainty = '-', again, next, effect, billed } = row;
  const follows = next === 'if_unconfirmed' ? 'if' : next;
  return [outcome, certainty, AGAIN[again], follows, effect === 'neutral' ? '-' : effect, billed];
}

const INDENT = ' '.repeat(17);

/** A word with its meaning beside it, broken to fit. */
function defined(word: string, meaning: string, line_width: number): string[] {
  return wrapText(meaning, line_width, `  ${word}`.padEnd(INDENT.length), INDENT);
}

/** What each row is about, with the reason that is noted when it leads to another attempt. */
export function failoverMeaning({ when, reason }: FailoverRow): string {
  const is_noted = reason.startsWith('next_');
  return is_noted ? `${when} (${reason})` : when;
}

const ROWS: readonly (readonly [AttemptOutcome, FailoverRow])[] = Object.entries(FAILOVER_TABLE) as [
  AttemptOutcome,
  FailoverRow,
][];

/** The words of the table that can be asked about one by one: outcomes, and reasons of attempts and dropped upstreams. */
export const FAILOVER_WORDS: readonly string[] = [
  ...new Set([...Object.keys(FAILOVER_TABLE), ...Object.keys(ATTEMPT_REASONS), ...Object.keys(DROP_REASONS)]),
];

/** Whether it can be asked about: one of the words, or the status of an error, such as 529. */
export function isFailoverWord(word: string): boolean {
  return FAILOVER_WORDS.includes(word) || isErrorStatus(word);
}

function isErrorStatus(word: string): boolean {
  return /^[45]\d\d$/.test(word);
}

/** The row of an outcome, or of a status when nothing else is known of the answer. */
function rowOf(word: string): readonly [AttemptOutcome, FailoverRow] | undefined {
  const outcome = isErrorStatus(word) ? outcomeOf(Number(word), undefined) : word;
  return ROWS.find(([name]) => name === outcome);
}

/** The whole table, for programs. */
export function failoverData(): object {
  return {
    outcomes: Object.fromEntries(ROWS),
    attempt_reasons: ATTEMPT_REASONS,
    drop_reasons: DROP_REASONS,
    notes: FAILOVER_NOTES,
  };
}

/** What follows from a failed attempt: the table, what its rows are about, and every word that audit rows and the ledger use. */
export function describeFailover(line_width: number): string[] {
  const titles = FAILOVER_COLUMNS.map(([title]) => title);
  return [
    'failover: what becomes of a request that an upstream does not serve',
    '',
    ...formatList(titles, ROWS.map(failoverCells), line_width),
    '',
    'Outcomes',
    ...ROWS.flatMap(([outcome, row]) => defined(outcome, failoverMeaning(row), line_width)),
    '',
    'Columns',
    ...FAILOVER_COLUMNS.flatMap(([title, meaning]) => defined(title, meaning, line_width)),
    '',
    'Besides',
    ...FAILOVER_NOTES.flatMap((note) => wrapText(note, line_width, '  - ', '    ')),
    '',
    ...wrapText(
      '`appscli explain failover <word>` explains one of these words, or a status such as 529. It also explains the reasons in audit rows and the ledger: why an attempt was followed by another one, and why an upstream was not asked.',
      line_width,
    ),
  ];
}

/** Every meaning of one of the words, for programs. */
export function failoverWordData(word: string): object {
  return {
    word,
    outcome: rowOf(word)?.[1] ?? null,
    attempt_reason: (ATTEMPT_REASONS as Readonly<Record<string, string>>)[word] ?? null,
    drop_reason: (DROP_REASONS as Readonly<Record<string, string>>)[word] ?? null,
  };
}

/** Every meaning of one of the words. */
export function describeFailoverWord(word: string, line_width: number): string[] {
  const row = rowOf(word);
  const attempt = (ATTEMPT_REASONS as Readonly<Record<string, string>>)[word];
  const drop = (DROP_REASONS as Readonly<Record<string, string>>)[word];
  const leading = ROWS.filter(([, { reason }]) => reason === word).map(([outcome]) => outcome);
  const titles = FAILOVER_COLUMNS.map(([title]) => title);
  const parts = [
    row === undefined
      ? []
      : [
          ...wrapText(`As an outcome: ${failoverMeaning(row[1])}.`, line_width),
          '',
          ...formatList(titles, [failoverCells(row)], line_width),
        ],
    attempt === undefined
      ? []
      : [
          ...wrapText(`As the reason of an attempt: ${attempt}.`, line_width),
          ...(leading.length === 0 ? [] : ['', ...defined('after', leading.join(', '), line_width)]),
        ],
    drop === undefined ? [] : wrapText(`As the reason why an upstream is not asked: ${drop}.`, line_width),
  ];
  return [`failover ${word}`, ...parts.filter((part) => part.length > 0).flatMap((part) => ['', ...part])];
}
