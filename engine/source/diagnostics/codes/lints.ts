/** Warnings about policy: the pipeline runs, but money or people may take a way that nobody meant to leave open. */
export const LINT_CODES = {
  W7010: {
    title: 'Anybody can spend money',
    explanation:
      'The stage sends requests out, at your cost, and no stage above it finds out who is asking. Whoever reaches the address of the gateway can use it up. Add `authenticate` as the first stage.',
    example: 'stages: [{ stage: my-forward }]   # and no authenticate',
  },
  W7011: {
    title: 'No budget limits what is sent',
    explanation:
      'The stage sends requests out, and no check-budget in force stands above it: spend limits do not apply to this pipeline, and a crash in the middle of a request loses what it cost.',
    example: 'stages:\n  - ...\n  - stage: meter-usage\n  - stage: forward   # and no check-budget',
  },
  W7012: {
    title: 'Nobody measures what is used',
    explanation:
      'The stage sends requests out, and no meter-usage in force watches the response: what a request used is guessed or missing, not read from the response.',
    example: 'stages:\n  - ...\n  - stage: check-budget\n  - stage: forward   # and no meter-usage',
  },
  W7013: {
    title: 'No request is recorded',
    explanation:
      'The pipeline sends requests out, and no audit stage under `finally:` records each of them: afterwards nobody can tell who asked for what.',
    example: 'stages: [{ stage: my-forward }]   # and no finally',
  },
  W7014: {
    title: 'No stage raises the error',
    explanation:
      'The clause handles an error code that nothing in this pipeline can raise, so it never answers for it. Perhaps another code is meant.',
    example:
      'on_error: [{ errors: [not_translatable], stage: fail, options: { error: forbidden } }]   # and no translate',
  },
  W7015: {
    title: 'Some requests skip a check',
    explanation:
      'A stage that says who is asking, reserves the budget or measures the use has a guard, and requests for which it is false are sent without it. Remove the guard, or put the same guard on the stage that sends.',
    example:
      'stages:\n  - ...\n  - { stage: check-budget, when: { var: request.stream } }\n  - stage: meter-usage\n  - stage: forward',
  },
  W7016: {
    title: 'A stage is listed twice',
    explanation:
      'Another entry has the same stage, options and guard, so this one does the same again; after an answer it never runs at all. Perhaps one of them should differ.',
    example: 'finally: [{ stage: audit }, { stage: audit, id: again }]',
  },
  W7017: {
    title: 'A routing rule can never match',
    explanation:
      'The first rule that matches decides, and an earlier rule matches whatever this one would. Put the narrower rule first, or remove one of the two.',
    example:
      'routing:\n  default_upstream: main\n  rules: [{ models: ["*"], upstream: main }, { models: [coder-1], upstream: main }]',
  },
  W7018: {
    title: 'What the pipeline serves decides the guard',
    explanation:
      'The methods, paths and protocol under `match:` make this guard hold for every request, or for none. Correct it, remove it, or remove the entry.',
    example: 'when: { "===": [{ var: request.path }, /v1/message] }   # in a pipeline that serves /v1/messages',
  },
  W7019: {
    title: 'A warning is allowed that does not occur',
    explanation:
      'The reason why this entry of `allow:` was written is gone. Remove it, so that the warning is seen should it come back.',
    example: 'allow: { W7008: Kept for later. }   # and every rule is used',
  },
  W7024: {
    title: 'A check may fail open',
    explanation:
      'A stage that says who is asking, reserves the budget or measures the use has `fail_closed: false`: a request that it fails on, or does not finish in time for, is sent out without it, as nobody, against no limit or unmeasured. Remove the key, so that such a request is refused.',
    example:
      'stages:\n  - ...\n  - { stage: check-budget, fail_closed: false, timeout_seconds: 1 }\n  - stage: meter-usage\n  - stage: forward',
  },
  W7025: {
    title: 'Clients and an upstream speak different protocols',
    explanation:
      'The pipeline serves clients of one protocol and gateway.yaml has an upstream that speaks only others. Without the stage `translate` above `forward` a request that is routed there is refused with `not_supported`.',
    example:
      'upstreams: [{ name: main, type: compat, base_url: https://api.example.com/v1, api_key_env: UPSTREAM_KEY }]\n# pipelines/mine.yaml\nmatch: { methods: [POST], paths: [/mine], protocol: messages }   # and no stage translate',
  },
  W7100: {
    title: 'A copy lacks a stage of the shipped pipeline',
    explanation:
      'A pipeline of your own that replaces a shipped one does not follow it: what later versions add there is missing here. A file with `extends` says only what is different. If the stage is left out on purpose, remove it in such a file, or allow this warning with the reason.',
    example:
      'pipeline: messages   # with every stage of the shipped pipeline but translate\nmatch: { methods: [POST], paths: [/v1/messages], protocol: messages }',
  },
  W7101: {
    title: 'A guard stands in one API and not in the others',
    explanation:
      'A model can be asked through several APIs, each with a pipeline of its own. What only one of them refuses, the others let pass. Put such a guard under `everywhere` in gateway.yaml, or into a file with `extends: model-requests`.',
    example:
      'extends: messages\ninsert:\n  - after: read-body\n    stages: [{ stage: fail, when: { var: request.stream }, options: { error: forbidden } }]',
  },
  W7180: {
    title: 'A price is probably that of one token',
    explanation:
      'Prices are in USD per million tokens. One this small is what price lists name for a single token: with it the gateway would take next to nothing from budgets.',
    example:
      'models: [{ id: coder-1, family: coder, max_output_tokens: 64000, pricing: { input: 0.000003, output: 0.000015 } }]',
  },
  W7181: {
    title: 'A multiplier is probably a percentage',
    explanation: 'A multiplier is a factor on prices: 0.85 for 15 percent off, 2 for twice the price.',
    example:
      'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY, price_multiplier: 85 }',
  },
  W7182: {
    title: '`cidr` looks at something that is no address',
    explanation:
      'The operator `cidr` compares an IP address with ranges, and this fact never holds an address, so the condition never holds.',
    example: 'when: { cidr: [{ var: request.path }, 10.0.0.0/8] }',
  },
  W7160: {
    title: 'Nothing to replace',
    explanation:
      'A stage that replaces texts works on answers of upstreams. What the gateway answers itself, with `answer`, `fail` or a list of models, never passes through it.',
    example: 'stages:\n  - stage: authenticate\n  - stage: redact\n  - stage: list-models',
  },
  W7161: {
    title: 'Answers pass when a stage that replaces texts fails',
    explanation:
      'With `fail_closed: false` the request goes on without the stage, and what it was to take out reaches the client. Without it the answer is refused.',
    example: '- stage: redact\n  fail_closed: false',
  },
  W7200: {
    title: 'There is no such group',
    explanation:
      'Nobody can be in this group: it is no token group, and neither `auth.known_groups` nor another list under `auth` names it. Groups that only the identity provider knows belong into `auth.known_groups`.',
    example:
      'auth: { oidc: { issuer_url: https://id.example.com, client_id: gateway, client_secret_env: UPSTREAM_KEY, allowed_groups: [engineering] }, known_groups: [interns] }\naccess: { rules: [{ name: no-interns, when: { in: [interms, { var: principal.groups }] } }] }',
  },
  W7201: {
    title: 'A name is almost another one',
    explanation:
      'There may be such a group, team or project, and more likely a known one is meant. Once `auth.known_groups` lists the groups of the identity provider, all others are reported, and these no more.',
    example:
      'auth: { oidc: { issuer_url: https://id.example.com, client_id: gateway, client_secret_env: UPSTREAM_KEY, allowed_groups: [engineering] } }\naccess: { rules: [{ name: not-today, when: { in: [enginering, { var: principal.groups }] } }] }',
  },
  W7202: {
    title: 'A condition looks for a name that does not exist',
    explanation:
      'No request can have this model, alias, family, upstream, region, token group, role or routing rule, because none has this name. Conditions see the id of a model, never its alias: that is `request.alias`.',
    example: 'access: { rules: [{ name: not-today, when: { "===": [{ var: request.model }, codr-1] } }] }',
  },
} as const;
