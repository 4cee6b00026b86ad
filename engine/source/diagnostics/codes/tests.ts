/** Diagnostics of pipeline tests, the `*.test.yaml` files. */
export const TEST_CODES = {
  C8001: {
    title: 'The pipeline under test does not exist',
    explanation: 'The name after `pipeline:` is that of a pipeline of the configuration under test.',
    example: '# gateway.test.yaml\npipeline: mesages\ncases: [{ name: Answers, request: {}, expect: { status: 200 } }]',
  },
  C8002: {
    title: 'The test file stands in the wrong place',
    explanation:
      'The tests of the pipeline x are in x.test.yaml beside x.yaml, or in several files named x.<anything>.test.yaml there. gateway.test.yaml stands beside gateway.yaml and may name any pipeline.',
    example:
      '# pipelines/mine.test.yaml\ncases: [{ name: Answers, request: {}, expect: { status: 200 } }]\npipeline: models',
  },
  C8003: {
    title: 'The stage is not in the pipeline under test',
    explanation:
      'Under `runs` and `skips` stand ids of entries of the pipeline: the `id` of an entry, or the name of its stage where it has none.',
    example: 'cases: [{ name: Answers, request: {}, expect: { status: 200, skips: [forwrad] } }]',
  },
  C8004: {
    title: 'The client cannot leave at this moment',
    explanation:
      'A client that leaves before the answer needs an upstream that does not answer; one that leaves during the answer needs one that sends events and then falls silent. Otherwise chance would decide.',
    example: 'cases: [{ name: Leaves, request: { leaves: during_answer }, expect: { status: 200 } }]',
  },
  C8005: {
    title: 'The time is not possible',
    explanation: 'A moment must exist in the calendar, and the steps of a case follow each other in time.',
    example: 'cases: [{ name: Late, at: 2026-02-30T12:00:00Z, request: {}, expect: { status: 200 } }]',
  },
  C8006: {
    title: 'The caller lacks what the test is about',
    explanation:
      'A budget is spent by somebody: a team needs a caller with a team, and so on. A region is only known where gateway.yaml names the header that tells it, `server.region_header`.',
    example:
      'cases:\n  - name: A spent budget\n    spent: [{ scope: team, window: month, usd: 5 }]   # and a caller without a team\n    request: {}\n    expect: { status: 200 }',
  },
  C8007: {
    title: 'An upstream cannot do all of this',
    explanation:
      'A way to fail leaves no room for some of what is said besides: an upstream that takes no connection or cuts it at once answers nothing, one that is to fail with a status has an error of its own, and one that cuts its answer needs an answer.',
    example:
      'cases:\n  - name: An answer that never comes\n    request: {}\n    upstream: { fails: reset, json: { type: message } }\n    expect: { status: 502 }',
  },
} as const;
