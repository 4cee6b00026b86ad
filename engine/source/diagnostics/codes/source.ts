/** Diagnostics of the first pass: the file as text and as YAML. */
export const SOURCE_CODES = {
  C1001: {
    title: 'The file does not exist',
    explanation: 'Nothing is at this path. Relative paths in gateway.yaml start at the directory of gateway.yaml.',
    example: 'appscli check gatewya.yaml',
  },
  C1002: {
    title: 'The file cannot be read',
    explanation: 'The file exists but the gateway may not read it, or the path is a directory.',
    example: 'appscli check --config pipelines/',
  },
  C1003: {
    title: 'The file is too large',
    explanation: 'Configuration files are limited to 4 MiB: a larger one is almost certainly the wrong file.',
    example: 'appscli check --config access.log',
  },
  C1004: {
    title: 'The file is not UTF-8',
    explanation: 'Configuration files are UTF-8 text, with or without a byte order mark.',
    example: '# saved by an editor that is set to UTF-16',
  },
  C1005: {
    title: 'The file is empty',
    explanation: 'There is nothing in the file, or only comments.',
    example: 'appscli check other.yaml\n# other.yaml\n# nothing here yet',
  },
  C1006: {
    title: 'The file is not a mapping',
    explanation: 'Every configuration file consists of `key: value` pairs at the top.',
    example: 'appscli check other.yaml\n# other.yaml\n- server\n- upstreams',
  },
  C1007: {
    title: 'The file is not valid YAML',
    explanation:
      'The text breaks a rule of YAML at the marked place. Only the first break in a file is reported, because all that follows is read wrongly.',
    example: 'server: {listen: 127.0.0.1:8080',
  },
  C1008: {
    title: 'A tab is used for indentation',
    explanation: 'YAML is indented with spaces only.',
    example: 'server:\n\tlisten: 127.0.0.1:8080',
  },
  C1009: {
    title: 'A key is used twice',
    explanation: 'Two values for one key leave it open which of them counts.',
    example: 'region: eu\nregion: us',
  },
  C1010: {
    title: 'An anchor or alias is used',
    explanation:
      'Anchors (&) and aliases (*) hide where a value comes from. Write the value out, or put stages into a fragment. A `*` that is meant as text must be quoted.',
    example: 'models: [*]',
  },
  C1011: {
    title: 'A merge key is used',
    explanation: 'Merge keys (<<) hide where a value comes from. Write the keys out, or put stages into a fragment.',
    example: '<<: { region: eu }',
  },
  C1012: {
    title: 'An explicit tag is used',
    explanation: 'Tags change how a value is read. Quote a text that starts with `!`.',
    example: 'name: !!str 5',
  },
  C1013: {
    title: 'An operator that starts with `!` is not quoted',
    explanation:
      'YAML reads an unquoted `!` as a tag and the rule would silently mean something else. Operators that start with `!` are written in quotes.',
    example: 'when: { !: { var: request.stream } }',
  },
  C1014: {
    title: 'A key is not a string',
    explanation: 'Keys are non-empty strings. Numbers, true, false and empty keys must be quoted.',
    example: '1: one',
  },
  C1015: {
    title: 'The file holds several documents',
    explanation: 'A configuration file is one YAML document; `---` between two of them is not allowed.',
    example: 'pipeline: a\n---\npipeline: b',
  },
  C1016: {
    title: 'The file holds a control character',
    explanation:
      'A character that editors do not show makes a name differ from the one it looks like. A file that is full of them is no text file.',
    example: 'a file with a NUL byte, or the program instead of its configuration',
  },
  C1017: {
    title: 'A number begins with a zero',
    explanation:
      'Older readers of YAML take 010 for the octal number 8, newer ones for 10. Write the number without the zero, or quote it where a text is meant.',
    example: 'pool_max: 010',
  },
  C1018: {
    title: 'There is nothing to check',
    explanation:
      'The file or directory holds no configuration: no gateway.yaml, pipeline, fragment, managed policy or pipeline test. A check of nothing must not pass for a check.',
    example: 'appscli check empty-directory/',
  },
  C1019: {
    title: 'Nothing says what the file is',
    explanation:
      'A file is told by its keys at the top: `server`, `pipeline`, `fragment`, `policy` or `cases`. This one has none of them.',
    example: 'appscli check compose.yaml\n# compose.yaml\nservices: { web: {} }',
  },
} as const;
