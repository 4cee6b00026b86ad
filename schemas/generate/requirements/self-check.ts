import { type Section, yes } from './requirement.ts';

const OURS = 'e2e/selfcheck/ours.test.ts';
const PROXIES = 'e2e/selfcheck/behind-proxies.test.ts';
const COMMAND = 'cli/selfcheck.test.ts';
const DESK = 'cli/doctor/desk.test.ts';
const HOST = 'doctor/host/examine-host.test.ts';

const NAMED = 'a gateway behind a proxy > … does not pass, and the proxy is named';

/** The commands that say whether a gateway, a client or a machine is right. */
export const SELF_CHECK: Section = {
  title: 'Self-check and doctor',
  requirements: [
    yes('self-check.command', 'a command makes all of these checks at any gateway', {
      [OURS]: ['a self-check of our own gateway > passes with an upstream of …'],
      [COMMAND]: [
        'appscli selfcheck > says what it asks and what that costs, each result as it is known, and how many ended how',
      ],
    }),
    yes('self-check.limit', 'it sees the refusal at a limit, complete, twice the same, in every protocol', {
      [OURS]: ['a self-check of our own gateway > finds the refusal at a limit complete, in every protocol'],
      'selfcheck/limits.test.ts': ['the refusal of a caller whose limit is used up > is told of where it is one …'],
    }),
    yes('self-check.proxies', 'a fault of a proxy in front is found and named, and no fault where there is none', {
      [PROXIES]: [NAMED, 'a gateway behind a proxy > … passes'],
    }),
    yes('self-check.buffering', 'a stream that was held back is told from a slow model', {
      'selfcheck/streams.test.ts': [
        'how events arrive > fails when a long answer comes at once at its end, and a short one long before',
        'how events arrive > is left open when long and short answers come at once after the same time',
      ],
      [PROXIES]: [NAMED],
    }),
    yes('self-check.single-run', 'each coding client that is installed makes a single run, and opens no browser', {
      'selfcheck/clients.test.ts': [
        'a single run of a coding client > is made in a home of its own, with files for the gateway, the token in a variable and nothing of the person',
        'a single run of a coding client > fails at once when it opens a browser, and tells the host of the page and nothing more of it',
      ],
    }),
    yes(
      'self-check.tools',
      'clients that it runs have no tools: a gateway can not have them read files or run commands',
      {
        'selfcheck/clients.test.ts': [
          'a single run of a coding client > has no tools that whoever answers could have files read and commands run with',
        ],
      },
    ),
    yes('self-check.costs', 'what it costs is said before it asks, and is less than one cent unless more is allowed', {
      [COMMAND]: [
        'appscli selfcheck > makes all checks but the runs of clients for less than one cent by default',
        'appscli selfcheck > skips what would cost more than is allowed, and says what to allow',
      ],
    }),
    yes('self-check.hostile', 'a gateway that means harm hangs nothing, learns nothing, and reaches no terminal', {
      'selfcheck/hostile.test.ts': [
        'a self-check of a gateway that > … ends, is not content, tells nobody the token and nothing to the terminal',
      ],
    }),
    yes('doctor.desk', 'a command says why coding clients on this machine do not work, and changes nothing', {
      [DESK]: [
        'appscli doctor > tells what is wrong with its line, what to do, and that it can be mended, and changes nothing',
        'appscli doctor > shows no credential that stands where none belongs, nor what a file would do to a terminal',
      ],
    }),
    yes('doctor.fix', 'what is safe it mends: shown first, with a backup, once', {
      [DESK]: [
        'appscli doctor --fix > shows the difference, asks, keeps a backup, makes the file private, and has nothing left to do',
        'appscli doctor --fix > writes nothing when the answer is no, or when nobody is there to ask',
      ],
    }),
    yes(
      'doctor.model-not-found',
      '"model not found" is explained by the token group, with the models that it may use',
      {
        'doctor/gateway/tokens-and-models.test.ts': [
          'a model > that its token group may not use is told with those that it may',
        ],
        'doctor/gateway/own-gateway.test.ts': ['a gateway of ours > explains a model that the token group may not use'],
      },
    ),
    yes('doctor.network', 'what is between the machine and the gateway is looked at, for free', {
      'doctor/gateway/own-gateway.test.ts': [
        'a gateway of ours > is told apart from a proxy before it that holds streams back, takes headers off or refuses large requests',
      ],
      'doctor/gateway/hostile.test.ts': [
        'a gateway that means harm neither hangs the doctor, nor breaks it, nor is told the token again > where it …',
      ],
    }),
    yes(
      'doctor.host',
      'on the machine of a gateway it looks at all that the gateway needs, and at the proxies in front',
      {
        [HOST]: [
          'a gateway that runs behind a proxy > everything is found as it should be, and no model is asked',
          'a gateway that runs behind a proxy > a proxy that keeps streams back is found, and that the gateway itself is right',
          'a machine on which the gateway does not run > a port that somebody else has is told of, and nothing is asked of the public URL in vain',
        ],
        'doctor/host/database.test.ts': [
          'faults of a real database are found: read-only, too few connections, no schema',
        ],
      },
    ),
  ],
};
