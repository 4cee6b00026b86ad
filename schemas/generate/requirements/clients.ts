import { type Section, yes } from './requirement.ts';

const DOCTOR = 'doctor/build-cli.test.ts';
const FILES = 'e2e/clients/client-files.test.ts';
const CLIENT = 'cli/client/client.test.ts';
const followed = (name: string) => `a client that does as its files say > ${name}`;

const ENTRY = 'the build CLI > gets an entry for the gateway, which is its default, with the /v1 form of the address';
const RUN = followed('for the build CLI gets the expected reply of a single run from a chat upstream, and no redirect');
const TWO_FILES = 'the coding CLI > gets its two files, the credential in one that only its user can read';
const SHELL = 'the Messages client > gets lines for a shell, with the root form of the address and the token by name';
const ANY_ADDRESS = 'every client > may be given the address with the path of an API behind it';
const NAMES_ONLY = 'every client > is refused what is no address, and a key where a name belongs';
const FORM = 'the build CLI > takes the fields of a form, whichever form of the address is given';
const VARIABLES =
  'the variables for Messages name a model for each tier and ask for an hour, with a warning of those that forbid it';

const build = (id: string, asked: string, ...names: string[]) =>
  yes(`clients.build-cli.${id}`, asked, { [CLIENT]: [ENTRY, ...names], [FILES]: [RUN] });

const coding = (id: string, asked: string, ...names: string[]) =>
  yes(`clients.coding-cli.${id}`, asked, {
    [CLIENT]: [TWO_FILES, ...names],
    [FILES]: [followed('for the coding CLI gets its reply over Responses, with the key of auth.json')],
  });

/** Files and variables of coding clients, as `appscli client` writes them. */
export const CLIENTS: Section = {
  title: 'Files and variables of clients',
  requirements: [
    build('entry', 'the build CLI gets a section `[model.<alias>]`'),
    build('model', 'the entry has the model at the gateway'),
    build('base-url', 'the entry has the base URL, which ends in `/v1`', ANY_ADDRESS),
    build('name', 'the entry has a name to show', FORM),
    build(
      'context-window',
      'the entry always has the window, which the client would otherwise take for 200,000 tokens',
      FORM,
    ),
    build('context-window.long', 'the window is 500,000 tokens unless somebody says otherwise'),
    yes('clients.build-cli.api-key', 'the key may be in the file, which then is for its owner alone', {
      [FILES]: [followed('for the build CLI may find the token itself in them, which nobody else can read')],
    }),
    build(
      'env-key',
      'the entry names the variable with the key; a key in the place of the name is refused',
      NAMES_ONLY,
    ),
    build(
      'precedence',
      'a literal key that the client would prefer to the variable is taken out',
      'the build CLI > loses a literal key that it would prefer to the variable',
    ),
    build('default', 'the default is the alias, not the model'),
    coding('two-files', 'the coding CLI has files of its own, apart from those of the build CLI'),
    coding('auth', '`auth.json` gets one field, the key'),
    coding('provider', '`config.toml` says `model_provider`, and has that section'),
    coding('model', '`config.toml` says the model'),
    coding('effort', '`config.toml` asks for no effort of reasoning'),
    coding('window', '`config.toml` says the window of 500,000 tokens'),
    coding(
      'compaction',
      '`config.toml` has conversations shortened at 95 % of the window, whatever it is',
      'the coding CLI > may read the token from a variable; then auth.json is not touched',
    ),
    coding('provider-name', '`config.toml` names the provider'),
    coding('wire-api', '`config.toml` says that the provider speaks Responses'),
    coding('auth-required', '`config.toml` says that the key of `auth.json` is needed'),
    coding('base-url', '`config.toml` has the base URL, which ends in `/v1`'),
    coding(
      'minimal',
      '`config.toml` gets nothing else, and no path to a catalogue of models; one that is there is warned of',
      'the coding CLI > is warned of what would override the gateway',
    ),
    yes('clients.coding-cli.manager', 'both files come from the fields of a form: provider, address, key, model', {
      [CLIENT]: [
        'every client > takes the token itself, as the forms of client managers have it, with a word of warning',
        'the coding CLI > may read the token from a variable; then auth.json is not touched',
      ],
    }),
    yes('clients.messages.base-url', '`VENDOR_BASE_URL` is the root, without `/v1`', {
      [CLIENT]: [SHELL, ANY_ADDRESS],
      [FILES]: [
        followed(
          'for Messages gets its reply and the list of models, at the root of the address and with the bearer token',
        ),
      ],
    }),
    yes(
      'clients.messages.auth-token',
      '`VENDOR_AUTH_TOKEN` is the bearer token; a left-over `VENDOR_API_KEY` is warned of',
      {
        [CLIENT]: [SHELL, 'the Messages client > is warned of variables that would defeat the ones it gets'],
        'e2e/hostile/bad-input.test.ts': [
          'a credential > in the Authorization header decides over a key left over from another login',
        ],
      },
    ),
    yes('clients.messages.model', '`VENDOR_MODEL` fixes the model', { [CLIENT]: [SHELL], [FILES]: [VARIABLES] }),
    yes(
      'clients.messages.tiers',
      '`VENDOR_DEFAULT_..._MODEL` fixes the models of the tiers opus, sonnet, haiku and fable',
      {
        [FILES]: [VARIABLES],
      },
    ),
    yes('clients.messages.discovery', '`CLIENT_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1` has the client ask for models', {
      [CLIENT]: [SHELL],
      [FILES]: [
        followed(
          'for Messages gets its reply and the list of models, at the root of the address and with the bearer token',
        ),
      ],
    }),
    yes('clients.messages.cache-1h', '`ENABLE_PROMPT_CACHING_1H=1` has the client ask for an hour', {
      [CLIENT]: [SHELL],
      [FILES]: [VARIABLES],
    }),
    yes('clients.messages.against-1h', '`FORCE_PROMPT_CACHING_5M` and `DISABLE_PROMPT_CACHING` are warned of', {
      [FILES]: [VARIABLES],
    }),
    yes('clients.relay-variable', '`RELAY_API_KEY` holds the token unless another variable is named', {
      [CLIENT]: [ENTRY, SHELL],
    }),
    yes('clients.model-cache', 'where the client keeps the models it found is told', { [CLIENT]: [SHELL] }),
    yes('clients.names', 'names of files, keys and variables are neutral, or those of a profile', {
      [CLIENT]: ['every client > takes the names of a profile'],
    }),
    yes(
      'clients.faults.no-key',
      'a browser opens all the same: the variable without a key is named, and the default is set',
      {
        [CLIENT]: [ENTRY],
        [DOCTOR]: [
          'a build CLI that wants a sign-in in a browser > because its variable is not set is told so, with what else it would have taken',
        ],
      },
    ),
    yes('clients.faults.key-for-name', 'a key where the name of a variable belongs is refused', {
      [CLIENT]: [NAMES_ONLY],
      [DOCTOR]: [
        'an env_key that holds a key > becomes an api_key in a file that only its owner can read, and is never shown',
      ],
      'cli/client/client-check.test.ts': [
        'the program itself > takes neither a token where a name belongs nor a window that is none',
      ],
    }),
    yes('clients.faults.default-is-model', 'a default that is a model instead of an alias is replaced', {
      [CLIENT]: ['the build CLI > is asked about with the difference in view, and only a yes writes'],
      [DOCTOR]: ['a default that is the id of a model > becomes the alias of its entry'],
    }),
    yes('clients.faults.small-window', 'a window of 200,000 tokens for lack of another: the file has one', {
      [CLIENT]: [ENTRY],
      [DOCTOR]: ['a context window > that is missing, no number or larger than any model becomes 500000'],
    }),
    yes('clients.faults.not-matched', 'HTTP works and the client does not: what it reads is told', {
      [DOCTOR]: [
        'a build CLI that is set up as it should be > has nothing wrong with it, and its connection is told',
        'names of tables and keys > that are slips of the pen are put right, and what stood there stays',
        'names of tables and keys > of the other client are named',
      ],
    }),
    yes(
      'clients.faults.other-identity',
      'a client that calls itself another model: the ledger says which one answered',
      {
        'cli/usage/usage.test.ts': [
          'usage --json has a row per user, team, project, model and upstream with exact cost',
        ],
        'e2e/money/bills.test.ts': ['the model that answered is recorded, and priced where it is more expensive'],
      },
    ),
  ],
};
