/** Diagnostics of managed policies. */
export const POLICY_CODES = {
  C9001: {
    title: 'The directory of policies cannot be read',
    explanation:
      'The directory that `policies.managed.directory` names must exist, and that beside gateway.yaml must be one where it is used.',
    example: 'policies: { managed: { directory: polices } }',
  },
  C9002: {
    title: 'The policy does not exist',
    explanation:
      'The default policy is one of the files in the directory of policies, named without its ending. A policy needs no more than the one in the example, and even its settings may be empty.',
    example:
      'policies: { managed: { default_policy: standart } }\n\n# policies/standard.yaml\npolicy: standard\nversion: 1\nsummary: For everybody.\nsettings: { availableModels: [coder-1] }',
  },
  C9003: {
    title: 'A policy is not called like its file',
    explanation:
      'The name under `policy:` and the name of the file are the same, so that a policy somebody was given is found at once.',
    example: '# policies/contractors.yaml\npolicy: contractor',
  },
  C9004: {
    title: 'A setting has a reserved name',
    explanation:
      'Programs that copy settings into an object would change how the object works instead of setting a key of this name.',
    example: 'settings: { __proto__: { admin: true } }',
  },
  C9005: {
    title: 'A number of a setting cannot be kept exactly',
    explanation:
      'Settings are handed out as JSON, which knows no infinity, and whose readers keep whole numbers exactly up to 2^53 only.',
    example: 'settings: { limit: .inf }',
  },
  C9006: {
    title: 'A policy would drop a deny list of another',
    explanation:
      'Deny lists of several policies are united, so that no policy takes back what another one forbids. Anything but a list in its place would replace it.',
    example:
      'settings: { permissions: { deny: [Bash] } }\n# policies/team.yaml\npolicy: team\nmatch: { groups: [staff] }\nsettings: { permissions: false }',
  },
  W7060: {
    title: 'A policy is meant for nobody',
    explanation: 'The policy has no `match`, and is not the default policy: nobody ever gets it.',
    example: '# policies/contractors.yaml\npolicy: contractors   # and no match',
  },
  W7061: {
    title: 'A policy allows a model that does not exist',
    explanation:
      'An entry of `availableModels` is the family of a model in gateway.yaml, or a glob that the id of one matches.',
    example: 'settings: { availableModels: [codr-*] }',
  },
  W7062: {
    title: 'A setting looks like a secret',
    explanation: 'Whoever a policy is meant for can read all of it, and so can everybody who can read the file.',
    example: 'settings: { env: { SERVICE_TOKEN: ... } }',
  },
  W7065: {
    title: 'There are no policies yet',
    explanation:
      'A default policy is named, and there is no `policies` directory beside gateway.yaml. Clients are told that there is no policy. Where `policies.managed.directory` is written, its absence is an error.',
    example: 'policies: { managed: { default_policy: standard } }   # and no directory `policies`',
  },
  W7063: {
    title: 'A list of models restricts nothing',
    explanation:
      'The list of models that may be used is called `availableModels`, and stands directly under `settings`. Under another name, or deeper, it is handed out to clients, but the gateway refuses nothing because of it.',
    example: 'settings: { available_models: [coder-1] }',
  },
  W7064: {
    title: 'A policy misses people who sign in',
    explanation:
      'A token group counts as a group of its access tokens only. Whoever signs in has the groups that the identity provider tells, those under `members` of the token group, and would go without the policy.',
    example:
      'auth: { oidc: { ... } }\ntoken_groups: [{ name: interns, models: [coder-1], members: [all-interns] }]\n# policies/interns.yaml\npolicy: interns\nmatch: { groups: [interns] }   # without all-interns',
  },
  W7066: {
    title: 'Telemetry of clients goes nowhere',
    explanation:
      'A policy has clients send a signal to the gateway, and no destination under `telemetry.forward_to` of gateway.yaml takes it: the gateway answers that it has it, and drops it.',
    example:
      'appscli check --config gateway.yaml\nserver: { listen: 127.0.0.1:8080, public_url: https://gateway.example.com, profile: names.yaml }\n# names.yaml\nheader_prefix: vendor\nclients: { messages: { feature_prefix: CODER } }\n# policies/standard.yaml\npolicy: standard\ntelemetry: [logs]   # and no telemetry.forward_to in gateway.yaml',
  },
  W7067: {
    title: 'A policy puts texts into the telemetry of clients',
    explanation:
      'With these variables clients send the texts of prompts, answers and tools along with their telemetry. The gateway passes on what it gets as it comes; only a collector behind it can take them out.',
    example: 'settings: { env: { OTEL_LOG_USER_PROMPTS: "1" } }',
  },
  W7068: {
    title: 'The telemetry of clients has no name they know',
    explanation:
      'What switches on the telemetry of a client is a variable whose name begins with that of its vendor. The profile under `server.profile` has it, at `clients.messages.feature_prefix`.',
    example:
      'telemetry: { forward_to: [{ url: https://otel.example.com }] }\n# policies/standard.yaml\npolicy: standard\ntelemetry: [metrics]   # and no server.profile in gateway.yaml',
  },
} as const;
