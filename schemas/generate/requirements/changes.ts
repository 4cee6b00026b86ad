import { type Section, yes } from './requirement.ts';

const POLICIES = 'each policy > …: passes its tests, which see every decision fall both ways, and gives no warning';

/** What is changed without copying what ships. */
export const CHANGES: Section = {
  title: 'Policies and stages of your own',
  requirements: [
    yes('policies.extends', 'a pipeline file says only what is different in a shipped one', {
      'load/extend.test.ts': [
        'a pipeline that extends > several gets its stages into each of them, in the order they are written',
        'a pipeline that extends > may take out and replace what only some of them have',
        'a pipeline that extends > says where each entry was written',
      ],
    }),
    yes('policies.everywhere', 'stages of gateway.yaml are in the pipelines of all clients, and behind all requests', {
      'load/extend.test.ts': [
        'stages for all pipelines > are in every one that sends requests upstream, and at the end of all',
      ],
      'examples/custom-audit-stage-everywhere.test.ts': [
        'every API is audited, with who asked',
        'a request that is refused is audited',
        'sign-ins are audited, those that come to nothing as well',
      ],
    }),
    yes('policies.access-rules', 'rules refuse models by person, request or time, in force or in shadow mode', {
      'examples/policies.test.ts': [
        POLICIES,
        'the command finds whom a rule in shadow mode would refuse, and then whom it refuses',
      ],
      'stages/route-to.test.ts': [
        'route-to > asks rules about each model that a request names, by its own family',
        'route-to > asks rules that are for all requests about one that names no model, too',
      ],
    }),
    yes(
      'policies.limits',
      'a limit may count only what it is for, and one person may be granted room in that of a team',
      {
        'examples/policies.test.ts': [POLICIES],
        'money/limits/matching-limits.test.ts': [
          'a counter has the limit of its own rule, and that holds for all it counts',
        ],
        'money/limits/personal-grants.test.ts': [
          'the pool is used up for everybody but whoever was granted room, until that is taken back',
        ],
      },
    ),
    yes('policies.audit', 'the audit log tells whom a rule hits, or would hit', {
      'cli/audit/audit-filters.test.ts': [
        'audit tail > finds what a rule refused, and what it would have refused in shadow mode',
      ],
      'cli/diff-audit.test.ts': ['diff --audit > tells whom a new rule would have refused'],
    }),
    yes('stages.facts', 'a stage has facts of its own, for conditions and audit records', {
      'run/stage-manners.test.ts': [
        'a fact is what the stage says it is, and its record tells it',
        'what a stage writes stands in the record of its request, served, refused or failed, and changes nothing else in it',
      ],
      'load/stage-facts.test.ts': [
        'two configurations that are loaded at once keep to the facts of their own versions of a stage',
      ],
    }),
    yes(
      'stages.rewrite',
      'a stage replaces texts in answers of every API, and nothing passes that it could not look at',
      {
        'e2e/streams/redacted-answers.test.ts': [
          'answers in which addresses are replaced > reach a client of … from an upstream of ……',
        ],
        'e2e/streams/rewrite-response.test.ts': [
          'texts of an answer > are replaced in a stream, wherever it is cut',
          'texts of an answer > never pass where they cannot be looked through',
          'in shadow mode nothing changes, and what would be replaced is counted',
        ],
      },
    ),
    yes('stages.manners', 'a stage that ends the process or keeps it waiting is named, and nobody else notices', {
      'run/stage-manners.test.ts': [
        'a stage that ends the process fails, named, and nobody else notices',
        'a stage that keeps everything waiting is named in the log',
      ],
    }),
  ],
};
