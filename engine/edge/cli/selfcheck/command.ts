import { InvalidArgumentError } from 'commander';
import type { CommandRow } from '../commands.ts';
import { baseUrl, numberThat, option, seconds } from '../options.ts';
import { REPORT_OPTIONS } from '../report/report-options.ts';
import { type SelfcheckOptions, selfcheck } from './selfcheck.ts';

function ids(text: string): readonly string[] {
  const found = text.split(',').map((id) => id.trim());
  if (found.some((id) => !/^[a-z0-9_]+(?:\.[a-z0-9_]+)*$/.test(id))) {
    throw new InvalidArgumentError('Write ids with commas between them: messages.stream,models.');
  }
  return found;
}

const amount = numberThat(/^(?:\d{1,5}(?:\.\d*)?|\.\d+)$/, 'Write an amount in USD: 0.05.');

/** `appscli selfcheck`. */
export const commands: readonly CommandRow[] = [
  {
    options: [
      baseUrl(),
      option('--token-env <name>', 'the environment variable that holds an access token; else your sign-in is used'),
      option('--model <id>', 'the model to ask; else the cheapest it lists, or the first without prices'),
      option('--limit-token-env <name>', 'the variable with a token whose spend limit is used up, to see the refusal'),
      option(
        '--echo [host:port]',
        'listen as an upstream that the gateway forwards to, and see what arrives (default: 127.0.0.1:4010)',
      ),
      option('--profile <file>', 'names of headers and clients; else the neutral ones and those most people have'),
      option('--only <ids>', 'make only these checks: ids or their beginnings, with commas', ids),
      option('--max-usd <amount>', 'spend no more than this in all; 0 for what is free', amount).default(0.01),
      option('--timeout <seconds>', 'longest time for a request; ten times as long for all', seconds).default(60),
      option('--list', 'list the checks and what each uses, and ask nobody').conflicts('echo'),
      ...REPORT_OPTIONS,
    ],
    notes: `Says what it costs at most before it asks a model. The token goes to the base
URL and nowhere else; no redirect is followed. Exits 1 when a check failed, 64
for a wrong command line, 69 when the gateway can't be reached.

For --echo the gateway needs an upstream at that address, and a route to it for
a model: name it with --model. Nothing is spent then.`,
    examples: [
      'appscli selfcheck --base-url https://gw.example.com --token-env GATEWAY_TOKEN',
      'appscli selfcheck --only messages,models.list --max-usd 0',
      'appscli selfcheck --echo 127.0.0.1:4010 --model selfcheck-echo',
    ],
    run: (context, given: SelfcheckOptions) => selfcheck(context, given),
  },
];
