import { FAILOVER_COLUMNS, failoverCells } from '../../engine/cli/explain/explain-failover.ts';
import { ATTEMPT_REASONS, DROP_REASONS } from '../../engine/contract/forwarding.ts';
import { FAILOVER_NOTES, FAILOVER_TABLE } from '../../engine/upstreams/failover-table.ts';
import { code, page, prose, table } from './markdown.ts';
import { sentence } from './words.ts';

const meanings = (words: Readonly<Record<string, string>>) =>
  Object.entries(words).map(([word, meaning]) => [code(word), sentence(meaning)]);

/** The page about requests that an upstream does not serve. */
export function failoverPage(): string {
  const rows = Object.entries(FAILOVER_TABLE).map((row) => [...failoverCells(row), row[1].when, code(row[1].reason)]);
  const titles = FAILOVER_COLUMNS.map(([title]) => sentence(title));
  return page('Failover', [
    'What becomes of a request that an upstream does not serve, as long as the client has nothing of an answer. `appscli explain failover` prints the same, and `appscli explain failover <word>` one of the words.',
    '## By outcome',
    table(
      [...titles, 'When', 'Reason'],
      rows.map(([outcome, ...cells]) => [code(outcome!), ...cells]),
    ),
    FAILOVER_COLUMNS.map(([title, meaning]) => `- ${sentence(title)}: ${prose(meaning)}`).join('\n'),
    '## Besides',
    FAILOVER_NOTES.map((note) => `- ${prose(note)}`).join('\n'),
    '## Reasons of attempts',
    'What happened after an attempt, in audit rows and the ledger.',
    table(['Reason', 'Meaning'], meanings(ATTEMPT_REASONS)),
    '## Reasons why an upstream is not asked',
    'In the fact `route.dropped` and in audit rows.',
    table(['Reason', 'Meaning'], meanings(DROP_REASONS)),
  ]);
}
