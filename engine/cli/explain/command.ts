import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { collected, config, email, examples, json, notEmpty, time } from '../options.ts';

/** `appscli explain`. */
export function addExplain(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('explain')
    .description('what a pipeline, a rule, a request or a word of the reference comes to')
    .argument(
      '[word]',
      'pipelines, rules, the name of a pipeline, a file with a request, the id of a past request; or failover or telemetry, or a code, stage, fact, operator, header, field, error code or key of a file',
      'pipelines',
    )
    .argument(
      '[name]',
      'the word of the reference, after its kind: code, stage, fact, operator, header, field, key, error, failover or telemetry',
    )
    .addOption(config())
    .option('--user <email>', 'of a request: who asks', email)
    .option('--group <name>', 'of a request: token group of the caller', notEmpty)
    .option(
      '--member-of <group>',
      'of a request: group of the caller at the identity provider; may be repeated',
      collected,
    )
    .option('--signed-in', 'of a request: the caller has signed in and uses no access token')
    .option('--team <name>', 'of a request: team of the caller', notEmpty)
    .option('--project <name>', 'of a request: project of the caller', notEmpty)
    .option('--address <ip>', 'of a request: where it comes from; 127.0.0.1 where absent', notEmpty)
    .option('--region <name>', 'of a request: region it comes from', notEmpty)
    .option(
      '--header <name: value>',
      "of a request: a header beside those of the file, such as 'x-team: red'; may be repeated",
      collected,
    )
    .addOption(
      new Option('--token-name <name>', "of a request: name of the caller's access token")
        .argParser(notEmpty)
        .conflicts('signedIn'),
    )
    .option('--at <when>', 'of a request: when it comes; now where absent', time)
    .option('--path <path>', 'of a request: where it goes; /v1/messages where absent', notEmpty)
    .option('--ledger', 'of a request: count what is spent by now, and leave out drained upstreams, from the database')
    .addOption(json('print a JSON object'))
    .addHelpText(
      'after',
      examples(
        'appscli explain                          all pipelines on one screen',
        'appscli explain messages                 one of them, stage by stage',
        'appscli explain rules                    every rule, with where it is from',
        'appscli explain request.json --user ann@example.com --group engineers',
        "appscli explain request.json --header 'x-team: red' --token-name ci",
        'appscli explain C2004                    what check complains about',
        'appscli explain stage forward            its options, facts and errors',
        'appscli explain principal.groups         what a rule can see',
        'appscli explain spend_limits.rules       a key of gateway.yaml or other files',
        'appscli explain key models               where a pipeline has its name, too',
        'appscli explain header set-cookie        what becomes of a header',
        'appscli explain field service_tier       what becomes of a field of a request',
        'appscli explain failover                 what follows when an upstream fails',
        'appscli explain telemetry                every span, event and metric',
      ),
    )
    .action(async (word, name, given, command) => {
      const config_named = command.getOptionValueSource('config') === 'cli';
      const words = name === undefined ? [word] : [word, name];
      finish(await (await import('./explain.ts')).explain(context, { ...given, words, config_named }));
    });
}
