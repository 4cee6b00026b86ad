import { type CreateProgram, makeProgram } from './make-program.ts';
import { CLIENT, MODELS, SIGN_IN } from './sign-in/words.ts';

/** The command line as a whole, in the order in which help lists the commands. */
export const createProgram: CreateProgram = (options) =>
  makeProgram(options, {
    description:
      'A self-hosted gateway for model requests: who may use which model, through which upstream, for how much.',
    commands: [
      [
        'init',
        'begin a configuration: gateway.yaml with comments, a pipeline with a rule, its tests',
        () => import('./init/init.ts'),
      ],
      [
        'gateway',
        'run the gateway until SIGTERM or Ctrl-C; SIGHUP reloads its configuration',
        () => import('./gateway.ts'),
      ],
      ['migrate', 'bring the tables of the database up to date', () => import('./migrate.ts')],
      [
        'mock-upstream',
        'play a provider until SIGTERM or Ctrl-C: it knows every model and key, and costs nothing',
        () => import('./mock-upstream.ts'),
      ],
      [
        'check',
        'check a configuration and its tests without running them; exits 1 when there is something to fix',
        () => import('./check.ts'),
      ],
      [
        'explain',
        'what a pipeline, a rule, a request or a word of the reference comes to',
        () => import('./explain/explain.ts'),
      ],
      [
        'test',
        'run the tests of pipelines and rules: no network, no database, no waiting',
        () => import('./test/test.ts'),
      ],
      ['stages', 'the stages a pipeline can name, your own included', () => import('./stages.ts')],
      ['tokens', 'access tokens: one per person and client, each revocable alone', () => import('./tokens.ts')],
      [
        'service-tokens',
        'credentials of programs for the admin API, which need no person',
        () => import('./service-tokens.ts'),
      ],
      ['sessions', 'who is signed in where, or was refused and why; ending that', () => import('./sessions.ts')],
      ['users', 'which account of the identity provider an e-mail address belongs to', () => import('./people.ts')],
      [
        'policy',
        'managed policies: settings that the gateway hands to clients, by group and e-mail domain',
        () => import('./policy.ts'),
      ],
      [
        'usage',
        'requests, tokens and cost per user, team, project, model and upstream',
        () => import('./usage/usage.ts'),
      ],
      MODELS,
      ['limits', 'limits at run time: what is in force, and changes of it', () => import('./limits.ts')],
      ['upstreams', 'upstreams: how they are, and which get no new requests', () => import('./upstreams.ts')],
      [
        'ledger',
        'whether the money adds up, what it should have cost, what the bill says',
        () => import('./ledger/ledger.ts'),
      ],
      ['prices', 'what models cost, and what has no price', () => import('./prices.ts')],
      ['audit', 'what was requested, and who changed what', () => import('./audit.ts')],
      ['create', 'write a stage of your own to begin with', () => import('./create-stage.ts')],
      [
        'diff',
        'what a new configuration changes for whom: models, policies, routes, limits, prices, pipelines',
        () => import('./diff.ts'),
      ],
      ['config', 'what gateways loaded and run, and what differs', () => import('./config.ts')],
      ['console', 'the address of the console in a browser, or a link that opens it', () => import('./console.ts')],
      ...SIGN_IN,
      CLIENT,
      [
        'selfcheck',
        'does a gateway do what coding clients need? Asks it, whoever made it',
        () => import('./selfcheck/command.ts'),
      ],
      [
        'doctor',
        'why does it not work? Looks at the coding clients here, or at the machine of a gateway',
        () => import('./doctor/command.ts'),
      ],
    ],
    examples: [
      'appscli init                                  begin here',
      'appscli check --config gateway.yaml           is the configuration right?',
      'appscli gateway --config gateway.yaml         run it',
      'appscli tokens create --user alice@example.com --group all --name laptop',
      'appscli usage --since 7d                      who spent what',
    ],
  });
