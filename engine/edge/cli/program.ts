import { CLIENT, MODELS, SIGN_IN } from './client-program.ts';
import { type CreateProgram, makeProgram } from './main.ts';

/** The command line as a whole, in the order in which help lists the commands. */
export const createProgram: CreateProgram = (options) =>
  makeProgram(options, {
    description:
      'A self-hosted gateway for LLM requests: access rules, routing with failover, budgets, audit and telemetry.',
    commands: [
      ['init', 'write a commented gateway.yaml, a pipeline with a rule, and tests', () => import('./init/init.ts')],
      ['gateway', 'run the gateway until SIGTERM or Ctrl-C; SIGHUP reloads', () => import('./gateway.ts')],
      ['migrate', 'apply pending database migrations', () => import('./migrate.ts')],
      ['mock-upstream', 'run a mock provider that accepts every model and key', () => import('./mock-upstream.ts')],
      ['check', 'check a configuration without running it; exits 1 for errors', () => import('./check.ts')],
      [
        'explain',
        'explain a pipeline, the rules, a request, or a term of the reference',
        () => import('./explain/explain.ts'),
      ],
      ['test', 'run tests of pipelines and rules, without network and database', () => import('./test.ts')],
      ['stages', 'list the available stages, including your own', () => import('./stages.ts')],
      ['tokens', 'manage access tokens', async () => ({ commands: (await import('./tokens.ts')).tokens })],
      [
        'service-tokens',
        'manage service tokens: credentials of programs for the admin API',
        async () => ({ commands: (await import('./tokens.ts')).serviceTokens }),
      ],
      [
        'sessions',
        'list, explain and end sign-in sessions',
        async () => ({ commands: (await import('./users.ts')).sessions }),
      ],
      [
        'users',
        'list users, and assign them to accounts of the identity provider',
        async () => ({ commands: (await import('./users.ts')).users }),
      ],
      ['policy', 'show managed policies: client settings by group and e-mail domain', () => import('./policy.ts')],
      ['usage', 'report requests, tokens and cost per user, team, model and more', () => import('./usage/usage.ts')],
      MODELS,
      ['limits', 'show limits and change them at run time', () => import('./limits.ts')],
      ['upstreams', 'show upstreams, and drain or resume them', () => import('./upstreams.ts')],
      ['ledger', 'verify and reprice the ledger, reconcile it with bills', () => import('./ledger.ts')],
      ['prices', 'show prices, and find missing ones', () => import('./prices.ts')],
      ['audit', 'show the audit log of requests and of administrative changes', () => import('./audit.ts')],
      ['create', 'write a new stage with a test', () => import('./create-stage.ts')],
      ['diff', 'show what a new configuration changes, and for whom', () => import('./diff.ts')],
      ['config', 'list loaded configurations, and compare them', () => import('./config.ts')],
      ['console', 'print the address of the web console, or a one-time link', () => import('./console.ts')],
      ...SIGN_IN,
      CLIENT,
      ['selfcheck', 'check any gateway for what coding clients need', () => import('./selfcheck.ts')],
      ['doctor', 'diagnose problems of coding clients, or of the gateway host', () => import('./doctor/command.ts')],
    ],
    examples: [
      'appscli init                                  start here',
      'appscli check --config gateway.yaml           check the configuration',
      'appscli gateway --config gateway.yaml         run it',
      'appscli tokens create --user alice@example.com --group all --name laptop',
      'appscli usage --since 7d                      cost per user and model',
    ],
  });
