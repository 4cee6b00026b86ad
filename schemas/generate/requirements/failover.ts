import { type Section, yes } from './requirement.ts';

const KILLED = 'e2e/failover/killed.test.ts';
const REMEMBERED = 'e2e/failover/remembered.test.ts';
const LARGE = 'e2e/failover/large.test.ts';
const LIMITS = 'e2e/failover/limits-of-upstreams.test.ts';
const AFFINITY = 'e2e/failover/affinity.test.ts';
const BREAKERS = 'upstreams/states/upstream-states.test.ts';
const DOWNGRADE = 'e2e/clients/cache-downgrade.test.ts';
const READY = 'e2e/lifecycle/readiness.test.ts';
const DRAINED = 'e2e/lifecycle/upstream-states.test.ts';

/** What holds while upstreams fail. */
export const FAILOVER: Section = {
  title: 'Several upstreams',
  requirements: [
    yes('failover.next', 'what one upstream fails, the next one serves', {
      'e2e/failover/odd-failures.test.ts': [
        'an upstream to which no connection can be made > because it is deaf, unknown or speaks no TLS gets nothing, and the next one serves',
      ],
      [LARGE]: [
        'a request of 30 MB at an upstream that > … goes to one that is translated for, and to one that gets its bytes',
      ],
      'examples/failover.test.ts': [
        'requests go on while one upstream is broken, mended and drained, by the commands of the README',
      ],
    }),
    yes('failover.table', 'what follows from each failure is one table, which `appscli explain failover` prints', {
      'cli/explain/explain-failover.test.ts': [
        'appscli explain failover > prints each row of the table, as one line within 80 columns, and what it is about',
        'appscli explain failover > explains a status by the outcome that it stands for',
      ],
    }),
    yes('failover.streams', 'a stream that breaks after its first byte ends with one error, and is not sent again', {
      [KILLED]: [
        'three upstreams with 200 streams > one of which is killed: no client sees more than one error, and every request has its attempt',
      ],
    }),
    yes('failover.bounds', 'attempts end with their time, and when the client has gone', {
      [REMEMBERED]: [
        'a request does not go on > when its time is over',
        'a request does not go on > once its client has gone, before the first upstream failed',
      ],
    }),
    yes('failover.unconfirmed', 'a request that may have been accepted is sent elsewhere only where that is allowed', {
      [REMEMBERED]: ['a request that may have been accepted > goes nowhere else where gateway.yaml says so'],
    }),
    yes('failover.retry-budget', 'an upstream that fails is not flooded with repeated requests', {
      [KILLED]: [
        'an upstream that fails again and again > gets no more requests again than its retry budget, and the others serve',
      ],
    }),
    yes('failover.retry-after', 'when no upstream can serve, the client is told the soonest time to come back', {
      [REMEMBERED]: [
        'what an upstream told is remembered > when all are limited the last is asked all the same, and the client is told the soonest time',
        'what an upstream told is remembered > nobody is told to wait for longer than a minute',
      ],
    }),
    yes('failover.money', 'every attempt is in the ledger, and counts at the upstream that may bill it', {
      [LIMITS]: [
        'a request that several upstreams are asked for > counts at each upstream what this one may bill, and in all for its caller',
        'a request that several upstreams are asked for > that none serves costs what each of them may bill',
      ],
    }),
    yes('failover.limits', 'a request is not sent to an upstream whose limit has no room', {
      [LIMITS]: ['a request that several upstreams are asked for > is not sent to an upstream whose limit has no room'],
    }),
    yes('failover.stages', 'a stage of your own can act before each attempt, in any pipeline', {
      'e2e/failover/own-stage.test.ts': [
        'a stage of your own that acts before each attempt > writes a body for each upstream, always from the one that came',
        'a stage of your own that acts before each attempt > keeps the request from an upstream by an error that it declares, and the next one serves',
      ],
    }),
    yes('failover.tests', '`appscli test` plays upstreams that fail, and `explain` names upstreams and attempts', {
      'simulate/upstreams.test.ts': [
        'a request with several upstreams > goes to the next as the table of failover says, which takes no time',
      ],
      'cli/explain/explain-upstreams.test.ts': [
        'a request to come > is told why an upstream of its route is not asked',
        'a past request > has the attempts of its row in the ledger, with what followed each',
      ],
    }),
    yes('breakers.open', 'an upstream that keeps failing gets no requests for a time, then one at a time', {
      [BREAKERS]: [
        'the breaker of a model at an upstream > opens after five failures in a row, for that model at that upstream alone',
        'the breaker of a model at an upstream > lets one request at a time through once its time is over, and closes when two of them succeeded',
      ],
      [KILLED]: [
        'a flapping upstream with a breaker > gets few requests while it fails, one at a time when it is tried again, and all when it is well',
      ],
    }),
    yes(
      'breakers.alone',
      'where it is the only one, requests fail at once, with the reason and an honest `retry-after`',
      {
        [REMEMBERED]: [
          'an upstream that is alone > fails at once while its breaker is open, says why and when, and reserves nothing',
        ],
      },
    ),
    yes(
      'breakers.credential',
      'a refused credential is told as an error of the gateway, and the upstream is left alone',
      {
        [REMEMBERED]: ['what an upstream told is remembered > a credential it refused, for all models, for a minute'],
        [BREAKERS]: [
          'the breaker of a credential > opens at once for every model and for every upstream with that credential at that address, and says so as an error',
        ],
      },
    ),
    yes('breakers.limited', 'a 429 is a limit for as long as it says, and no failure', {
      [REMEMBERED]: ['what an upstream told is remembered > a limit, for as long as it said, and only for the model'],
      [BREAKERS]: [
        'the time in which an upstream has no room (429) > lasts as long as it was told, for that model, and is no failure',
      ],
    }),
    yes('breakers.replicas', 'other replicas hear of an upstream that fails', {
      [DRAINED]: [
        'an upstream that fails > is left out once its breaker is open, at other replicas too, which heard of it',
      ],
    }),
    yes('affinity.sessions', 'a session stays at the upstream that has its prompts in the cache, at every replica', {
      [AFFINITY]: ['all turns of a session are served at one upstream, whichever replica they come to'],
    }),
    yes('affinity.failure', 'a session moves once for a failure, and stays while the new cache is warm', {
      [AFFINITY]: [
        'a session moves once for a failure and does not come back, so that 95 of 100 turns stay where its cache is',
      ],
    }),
    yes('affinity.removal', 'an upstream that goes takes no other sessions with it', {
      [AFFINITY]: ['when one of three goes only its own sessions move, and they are shared by the others'],
    }),
    yes('affinity.state', 'encrypted or stored state goes only to upstreams that can read it', {
      [REMEMBERED]: [
        'a request that holds state > goes only where it can be read: to c and not to b',
        'a request that holds state > and where nobody there can serve it is refused for a while, never sent to fail',
      ],
    }),
    yes('drain.upstreams', 'an upstream can be drained and resumed, at every replica at once', {
      [DRAINED]: [
        'an upstream that an administrator drains > gets no new requests at any replica, ends those it has, and gets requests again once it is resumed',
      ],
    }),
    yes('drain.audit', 'draining is recorded, with who and why', {
      'upstreams/states/replicas.test.ts': [
        'an upstream that is drained > is in the list of changes, with who and why, before and after',
      ],
    }),
    yes('drain.stop', 'a gateway that stops ends what is under way with one error each, and settles it', {
      'e2e/lifecycle/drain-upstreams.test.ts': [
        'SIGTERM ends what is under way at several upstreams with one error each, begins nothing after it, and leaves the books settled',
      ],
    }),
    yes(
      'keep-alive.streams',
      'streams of every protocol are kept alive while they are silent, but not before an upstream answers',
      {
        'e2e/streams/keep-alive.test.ts': [
          'a … client at a … upstream hears every 15 seconds of silence that its stream is alive, between events',
          'a … client hears nothing until its upstream answers, and then the status of the answer',
        ],
      },
    ),
    yes('readiness.upstreams', '`/readyz` tells how upstreams are, and is as ready without any', {
      [READY]: ['/readyz under … > says how the upstreams are, and is as ready without any'],
    }),
    yes('readiness.database', '`/readyz` says what requests get while the database is away, and names no host', {
      [READY]: [
        '/readyz under … > says of a database that is read-only, or away, what requests get, and names no host',
      ],
    }),
    yes(
      'readiness.start',
      'a gateway that starts without its database serves known callers under `allow`, or says why not',
      {
        'e2e/lifecycle/start-without-database.test.ts': [
          'serves under allow whom the gateway before it knew, and writes it down when the database is there',
          'refuses requests under deny, keeps nobody, and says why',
        ],
      },
    ),
    yes(
      'cache.supported',
      'a request for a 1-hour cache passes byte for byte where the upstream keeps prompts for an hour',
      {
        [DOWNGRADE]: [
          'where the upstream keeps prompts for an hour > a request for it passes byte for byte, the attribution block included, and nothing is said about it',
        ],
      },
    ),
    yes(
      'cache.downgrade',
      'elsewhere exactly the fields that ask for it are changed to five minutes, and that is recorded',
      {
        [DOWNGRADE]: [
          'where the upstream does not > exactly the fields that ask for it ask for five minutes, and that is told everywhere',
          'where the upstream does not > what only looks like a request for it stays as it is',
        ],
      },
    ),
    yes('cache.policy', 'upstreams and rules may have such requests refused, or passed as they are', {
      [DOWNGRADE]: [
        'where the upstream does not > it passes as it is where the upstream is said to take it so',
        'where the upstream does not > it is refused in the words of the client where upstream or rule say so, with what to do about it',
      ],
    }),
    yes('cache.usage', 'cache hits are told as the upstream tells them', {
      [DOWNGRADE]: [
        'where the upstream does not > usage reaches the client as the upstream tells it, and is charged at five minutes where that leaves it open',
      ],
    }),
  ],
};
