import { type Section, yes } from './requirement.ts';

const ATTACKS = 'e2e/console/console-attacks.test.ts';
const UPSTREAMS = 'e2e/console/console-upstreams.test.ts';
const LIMITS = 'e2e/console/limits-and-tokens.test.ts';
const SIGN_IN = 'e2e/console/console-sign-in.test.ts';
const USAGE_API = 'http/admin/usage.test.ts';
const USAGE_PAGE = 'e2e/console/usage-page.test.ts';
const FRAME = 'e2e/console/frame.test.ts';
const FILES = 'http/console/console-files.test.ts';
const PAGES = 'e2e/console/pages.test.ts';
const HOME_API = 'http/admin/home.test.ts';

/** What people see in a browser, and who may. */
export const CONSOLE: Section = {
  title: 'The console',
  requirements: [
    yes('console.sign-in', 'people sign in with the identity provider; groups are asked for again, and sessions end', {
      [SIGN_IN]: [
        'an administrator and a developer sign in, and are who they are',
        'a session ends half an hour after its last use, and after eight hours in any case',
        'the provider is asked again every quarter of an hour, and another cookie comes with other groups',
        'a session is good at every replica, and ends at all of them at once',
      ],
    }),
    yes(
      'console.link',
      'without an identity provider a link opens it: once, for a minute, on the machine of the gateway',
      {
        'e2e/console/console-link.test.ts': [
          'a link opens the console for an administrator, once',
          'a link is good for a minute',
          'neither the link nor its session is for requests that came through a proxy',
        ],
        'cli/console/console.test.ts': ['no link is printed that would open the console from another machine'],
      },
    ),
    yes('console.everywhere', 'pages work on a phone and a wide screen, in light and dark, by keyboard alone', {
      [PAGES]: [
        'the console of an administrator > shows every page without a complaint of the browser, wide and narrow, light and dark, with nothing serious for axe',
        'the console of an administrator > can be used without a mouse: everything that can be reached shows that it is',
        'the console of a developer > shows every page without a complaint of the browser, wide and narrow, light and dark, with nothing serious for axe',
        'the console of a developer > can be used without a mouse: everything that can be reached shows that it is',
      ],
      [FRAME]: ['on a phone the pages are in a menu that opens, leads on and closes by keyboard'],
    }),
    yes('console.first-page', 'the first page is small, and asks nobody but the gateway for anything', {
      [FRAME]: ['the first page takes less than … bytes with gzip, all its files together'],
      [FILES]: [
        'the start of the console > asks for nothing but files of the gateway, and holds no inline script or style',
      ],
    }),
    yes('console.headers', 'everything below the console goes out with its content security policy', {
      [FILES]: ['everything below the console goes out with its security headers, errors too'],
    }),
    yes('console.waiting', 'waiting is shown within 100 ms; a lost connection is told, and mended without a reload', {
      [FRAME]: [
        'a slow answer has a skeleton within 100 ms, and a quick one none',
        'a lost connection is told, and mended without a reload',
        'whoever is signed out elsewhere is shown how to sign in, and comes back to the page',
      ],
    }),
    yes('console.requests', 'every request says why it ended so, by what decided then; developers see their own', {
      'e2e/console/requests-page.test.ts': [
        'the page of requests > says without a mouse why a request was refused, by which rule, and leads to its limit',
        'the page of requests > shows new requests at the top while it is live, and keeps filters in the address',
        'the page of requests > shows a developer nobody else, by whatever address',
      ],
      'e2e/console/decision-trace.test.ts': [
        'the trace of a request > that was served has its stages, the rules with what they saw, and what was sent',
        'the trace of a request > that a limit refused begins with the sentence that its client was told',
      ],
      'http/admin/requests.test.ts': [
        'the list of requests > comes in pages, none of which lacks or repeats a request',
        'the live list > tells new requests that fit, and goes on where it was cut off',
        'one request > of somebody else is as unknown as none',
      ],
    }),
    yes('console.forgery', 'other sites change and read nothing, and show no page in a frame', {
      [ATTACKS]: [
        'another site > reads nothing, as a script, a picture or by fetch',
        'another site > shows no page of the console in a frame of its own',
        'another site > changes nothing with …, by any operation',
      ],
    }),
    yes('console.cookie', 'the cookie opens nothing else, and nothing else makes one', {
      [ATTACKS]: [
        'a cookie > means nothing to models, and to no other endpoint that takes a bearer',
        'a cookie > is not made by a bearer: the console stays closed',
        'a cookie > planted in a browser before it signs in is not the one it has then',
        'behind TLS > the cookie is for this host alone, and one without the prefix is none',
      ],
    }),
    yes('console.own', 'a developer sees and changes their own only', {
      [ATTACKS]: [
        'a developer > is refused every operation of administrators, whatever is sent',
        'a developer > finds what belongs to somebody else no more than what there is not',
        'a developer > sees nobody else in any list, and may not ask for somebody',
      ],
    }),
    yes('console.people', 'administrators see who is signed in where, and end it', {
      'e2e/console/people-page.test.ts': [
        'an administrator finds somebody, sees what they are signed in with, and ends it',
        'whatever people are called is text, and makes no page wider',
      ],
    }),
    yes('console.upstreams', 'how upstreams are and were, what went there, and the way to take one out', {
      [UPSTREAMS]: [
        'a breaker that opens, and what led to it, is there for administrators',
        'in a browser > an administrator drains an upstream by keyboard, is told what that leaves, and resumes it',
      ],
      'http/admin/upstream-traffic.test.ts': [
        'traffic of upstreams > is counted by upstream and model, by how each attempt ended',
        'what kept requests from upstreams is told in pages, and what other replicas keep beside the states',
      ],
    }),
    yes('console.policies', 'who gets which managed settings, from where, and whose clients have them', {
      [UPSTREAMS]: [
        'in a browser > an administrator previews policies as somebody else, whose clients never asked',
        'in a browser > a developer sees their own policies, and nothing of upstreams',
      ],
      'http/admin/policies.test.ts': [
        'managed policies > that somebody gets are told with where each setting is from',
        'managed policies > are told by person, with whether a client of theirs has them',
      ],
    }),
    yes(
      'console.usage',
      'the console tells usage by one to four dimensions, to the nano-dollar what the command line tells',
      {
        'cli/usage/usage.test.ts': [
          'usage prints what the admin API of a gateway answers, to the nano-dollar and to the byte',
        ],
        [USAGE_API]: [
          'usage over the admin API > has the rows of the report, to the nano-dollar, by any dimensions and filters',
          'usage over the admin API > sums up what there is no room for, so that the rows add up to the total',
        ],
        [USAGE_PAGE]: ['the page of usage > tells the cost of the ledger, and gives it as the file of the command'],
      },
    ),
    yes(
      'console.usage-before',
      'usage is compared with the period before, of the same length and up to the same time',
      {
        [USAGE_API]: [
          'usage over the admin API > compares with the period before, whole days back, with the same rows',
        ],
      },
    ),
    yes('console.usage-own', 'somebody who is no administrator sees their own usage alone', {
      [USAGE_API]: ["usage over the admin API > is one's own for everybody but administrators, whatever is asked for"],
      [USAGE_PAGE]: ['the page of usage > shows a developer their own alone, whatever the address says'],
    }),
    yes('console.home', 'the first page says what needs looking at, the most urgent first, and leads there', {
      [HOME_API]: [
        'the first page of administrators > has the numbers of the other operations, and ranks what to look at',
      ],
      [USAGE_PAGE]: [
        'the first page > tells an administrator what to look at, and leads there',
        'the first page > shows a developer their week, limits and tokens, and how to begin',
      ],
    }),
    yes('console.limits', 'limits in words: how many they count and refuse, how long they last, what a grant changes', {
      [LIMITS]: [
        'the page of limits > gives a grant by keyboard alone, after showing what it changes',
        'the page of limits > shows a developer their own, and words to ask for more, whose link opens the grant for administrators',
      ],
      'http/admin/limit-rules.test.ts': [
        'the limits of gateway.yaml > are told in words, with how many people they count and what they refused today',
        'a limit that was used as much every day is told to end when it will',
        'a grant that is not given yet > is shown as what it changes, and changes nothing',
      ],
    }),
    yes('console.tokens', 'access tokens per group, shown once; service tokens for administrators', {
      [LIMITS]: [
        'the page of tokens > makes a token that works, and shows it once',
        'the page of tokens > puts a new token in the place of one, and revokes it with what it replaced',
        "the page of tokens > is of one's own tokens, and of everybody's for administrators, with service tokens beside them",
      ],
      'http/admin/token-groups.test.ts': [
        'token groups > are told with what they open, who may make tokens in them, and how many there are',
        "token groups > of others, and others' tokens in one's own, are nobody's but an administrator's to know",
      ],
    }),
    yes('console.audit', 'who changed what, in words; who was turned away; both, and requests, as files', {
      'e2e/console/audit-page.test.ts': [
        'an administrator finds a change by whom it is about, reads all of it and takes it along, by keyboard alone',
        'who was turned away is listed with the reason, and names stay text',
      ],
      'audit/change-words.test.ts': ['a change is one sentence with who, what, for whom, until when and why'],
      'http/admin/changes.test.ts': [
        'changes as a file > are lines of JSON, all that the filter selects, each as the list has it',
        'changes as a file > are CSV in which no name is a formula',
      ],
      'http/admin/request-exports.test.ts': [
        'requests as a file > are all that fit, each once and whole, the newest first',
        'requests as a file > are for everybody their own alone',
      ],
    }),
    yes('console.demo', 'the demo has something to look at, marked as made up, that adds up', {
      'e2e/lifecycle/demo.test.ts': ['the demo, started twice'],
    }),
    yes(
      'console.config',
      'administrators see what runs where, what each reload changed, and rules in words beside their files',
      {
        'e2e/console/config-loads.test.ts': [
          'a start, a reload and a reload that failed are kept, with rules in words, and without a secret',
        ],
        'e2e/console/config-page.test.ts': [
          'the page of the configuration > leads by a link to a rule in words, beside what is written for it',
          'the page of the configuration > tells what differs between two versions in words and in lines',
          'the page of the configuration > says first that the last reload failed and what to do, and shows hostile texts as texts',
        ],
      },
    ),
    yes(
      'console.shadow',
      'a rule in shadow mode tells how many requests it would have changed, and comes with what enforces it',
      {
        'http/admin/config.test.ts': [
          'the configuration > counts what rules in shadow mode would have done, as audit records are written',
        ],
        'e2e/console/config-page.test.ts': [
          'the page of the configuration > puts a rule in shadow mode in force by a change to copy',
        ],
      },
    ),
    yes('console.reports', 'reports are answered from sums that equal the ledger to the nano-dollar at any moment', {
      'money/reports/usage-sums.property.test.ts': [
        'the sums of usage > say what the rows of the ledger come to, whatever was written, summed, changed or dropped, and however they are asked',
      ],
      'money/ledger/usage-sums.test.ts': [
        'what waits for the sums > goes on to count when the process that sums it up is killed half way',
        'a ledger from before there were sums > is summed up by and by, while reports say what it comes to',
        'the verification of sums > finds each number that differs, by hour and by day, and a name that was changed',
      ],
      'cli/ledger/ledger-verify.test.ts': [
        'ledger sum computes sums anew that were changed by hand, as ledger verify says to do',
      ],
    }),
  ],
};
