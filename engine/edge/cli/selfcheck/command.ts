import { InvalidArgumentError } from 'commander';
import type { CommandRow } from '../commands.ts';
import { baseUrl, numberThat, option, seconds } from '../options.ts';
import { REPORT_OPTIONS } from '../report/report-options.ts';
import { type SelfcheckOptions, selfcheck } from './selfcheck.ts';

function ids(text: string): readonly string[] {
  const found = text.split(',').map((id) => id.trim());
  if (found.some((id) => !/^[a-z0-9_]+(?:\.[a-z0-9_]+)*$/.test(id))) {
    throw new InvalidArgumentError('Expected ids separated by commas, such as messages.stream,models.');
  }
  return found;
}

const amount = numberThat(/^(?:\d{1,5}(?:\.\d*)?|\.\d+)$/, 'Expected an amount in USD, such as 0.05.');

/** `appscli selfcheck`. */
export const commands: readonly CommandRow[] = [
  {
    options: [
      baseUrl(),
      option('--token-env <name>', 'environment variable with an access token (default: your sign-in)'),
      option('--model <id>', 'model to use (default: the cheapest on its list)'),
      option('--limit-token-env <name>', 'variable with a token whose limit is exhausted, to check the error'),
      option(
        '--echo [host:port]',
        'start an echo upstream for the gateway, and check what arrives (default: 127.0.0.1:4010)',
      ),
      option('--profile <file>', 'names of headers and clients (default: neutral and shipped)'),
      option('--only <ids>', 'run only these checks: ids or prefixes, separated by commas', ids),
      option('--max-usd <amount>', 'spending limit; 0 runs only free checks', amount).default(0.01),
      option('--timeout <seconds>', 'timeout of a request; ten times as long for all', seconds).default(60),
      option('--list', 'list the checks with their token use, without running them').conflicts('echo'),
      ...REPORT_OPTIONS,
    ],
    notes: `Prints the maximum cost before it uses a model. Sends the token only to the base
URL, and follows no redirects. Exits 1 if a check failed, 64 for a wrong command
line, 69 if the gateway is unreachable.

--echo needs a gateway upstream with that address, and a model routed to it:
name it with --model. This costs nothing.`,
    examples: [
      'appscli selfcheck --base-url https://gw.example.com --token-env GATEWAY_TOKEN',
      'appscli selfcheck --only messages,models.list --max-usd 0',
      'appscli selfcheck --echo 127.0.0.1:4010 --model selfcheck-echo',
    ],
    run: (context, options: SelfcheckOptions) => selfcheck(context, options),
  },
];
