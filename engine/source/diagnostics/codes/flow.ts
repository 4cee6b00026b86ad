/** Diagnostics of the sixth pass: order of stages and the facts between them. */
export const FLOW_CODES = {
  C6001: {
    title: 'The pipeline may end without an answer',
    explanation:
      'Every request needs a stage that answers it. The last one must be unguarded, so that it is always reached.',
    example: 'stages: [{ stage: authenticate }]',
  },
  C6002: {
    title: 'The stage can never run',
    explanation: 'After the stage that always answers, only observers may follow, never another stage that answers.',
    example:
      'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward\n  - { stage: fail, options: { error: forbidden } }',
  },
  C6003: {
    title: 'A fact is read before anything writes it',
    explanation: 'A stage reads facts that earlier stages write. Put the stage that writes it first.',
    example:
      'stages:\n  - stage: authenticate\n  - stage: resolve-route\n  - stage: read-body\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  },
  C6004: {
    title: 'A fact is read that may not be there',
    explanation:
      'The stage that writes this fact has a guard and may be skipped, or is left out when it fails. Remove the guard, or put the same guard on the reader; remove `fail_closed: false`.',
    example:
      'stages:\n  - stage: authenticate\n  - { stage: read-body, when: { in: [staff, { var: principal.groups }] } }\n  - stage: resolve-route\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  },
  C6005: {
    title: 'A fact is written twice',
    explanation:
      'Every fact has one value and one writer per request. Two stages may write the same fact only when their guards exclude each other for everybody to see, as X and { "!": X } do.',
    example:
      'stages:\n  - ...\n  - { stage: read-body, id: again }\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  },
  C6006: {
    title: 'A rewrite is not audited',
    explanation:
      'A stage that may change the body needs an audit stage under `finally:`, always, so that every rewrite is on record.',
    example:
      'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: translate\n  - stage: forward\nfinally: []',
  },
  C6007: {
    title: 'A stage stands above one it completes',
    explanation:
      'Stages finish in reverse order. A stage that completes the work of another, as meter-usage settles what check-budget reserved, must stand below it.',
    example: 'stages:\n  - ...\n  - stage: meter-usage\n  - stage: check-budget\n  - stage: forward',
  },
  C6008: {
    title: 'A stage that answers cannot be left out',
    explanation:
      'With `fail_closed: false` a request goes on without a stage that fails, and without the one that answers there is nowhere to go. Answer its failure with an `on_error` clause instead.',
    example:
      'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - { stage: forward, fail_closed: false }',
  },
} as const;
