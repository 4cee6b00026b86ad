// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
/** Diagnostics of the second pass: fragments and their parameters. */
export const EXPAND_CODES = {
  C2001: {
    title: 'The fragment does not exist',
    explanation:
      'A fragment named by `use:` is looked for in `fragments/` beside the pipeline, then among the shipped fragments.',
    example: 'stages:\n  - use: fragments/audti',
  },
  C2002: {
    title: 'Fragments include each other in a circle',
    explanation: 'A fragment may use other fragments, but never, directly or indirectly, itself.',
    example: 'stages:\n  - use: fragments/a\n# pipelines/fragments/a.yaml\nfragment: a\nstages:\n  - use: fragments/a',
  },
  C2003: {
    title: 'A fragment parameter is missing',
    explanation: 'A parameter without a default must be given under `with:`.',
    example:
      'stages:\n  - use: fragments/refuse\n# pipelines/fragments/refuse.yaml\nfragment: refuse\nparameters: { max_bytes: { description: Most that is taken. } }',
  },
  C2004: {
    title: 'The fragment has no such parameter',
    explanation: 'Only parameters that the fragment declares under `parameters:` may be given under `with:`.',
    example:
      'stages:\n  - use: fragments/refuse\n    with: { max_bytse: 1000 }\n# pipelines/fragments/refuse.yaml\nfragment: refuse\nparameters: { max_bytes: { description: Most that is taken, default: 1 } }',
  },
  C2005: {
    title: 'A placeholder is only part of a value',
    explanation:
      'A placeholder stands for a whole value of any type. Text cannot be pasted together from placeholders, and keys cannot be placeholders.',
    example:
      'stages:\n  - use: fragments/refuse\n# pipelines/fragments/refuse.yaml\nfragment: refuse\nparameters: { team: { description: Whom to ask., default: us } }\nstages:\n  - stage: fail\n    options: { error: forbidden, message: "Ask ${{ team }} for access" }',
  },
  C2006: {
    title: 'The fragment does not declare this placeholder',
    explanation: 'Every placeholder must be declared under `parameters:` of its fragment.',
    example:
      'stages:\n  - use: fragments/refuse\n# pipelines/fragments/refuse.yaml\nfragment: refuse\nparameters: { status: { description: Status., default: 403 } }\nstages:\n  - stage: fail\n    options: { error: forbidden, status: "${{ stauts }}" }',
  },
  C2007: {
    title: 'A placeholder stands outside a fragment',
    explanation: 'Placeholders are replaced in fragments only. Elsewhere, write the value.',
    example: 'pipeline: mine\nsummary: ${{ text }}',
  },
  C2008: {
    title: 'The keys of a stage entry contradict each other',
    explanation:
      'An entry either names one stage (`stage`, with `options`) or includes a fragment (`use`, with `with`), never both.',
    example: 'stages:\n  - stage: fail\n    use: fragments/refuse',
  },
  C2009: {
    title: 'The name of a fragment is not allowed',
    explanation: 'A fragment is named `fragments/<name>`, without an ending and without a way out of that directory.',
    example: 'stages:\n  - use: ../other/refuse.yaml',
  },
  C2010: {
    title: 'A fragment has another name than its file',
    explanation: 'Pipelines use a fragment by the name of its file; the name inside must be the same.',
    example: '# pipelines/fragments/refuse.yaml\nfragment: decline',
  },
  C2011: {
    title: 'There is no such pipeline to extend',
    explanation:
      '`extends` in a pipeline file, and `pipelines` in `everywhere`, name pipelines that another file makes: shipped ones, or your own.',
    example: 'extends: mesages\ninsert: [{ after: authenticate, stages: [{ stage: read-body, id: again }] }]',
  },
  C2012: {
    title: 'There is no such entry to change',
    explanation:
      '`insert`, `replace` and `remove` name an entry of the pipeline by its id: what `id` says, else the name of its stage, else that of its fragment.',
    example: 'extends: messages\nremove: [adit]',
  },
  C2013: {
    title: 'A pipeline is extended twice',
    explanation:
      "Two files change the same pipeline, and which is first would be anybody's guess. Put both changes into one file.",
    example:
      '# pipelines/a.yaml\nextends: messages\nlimits: { body_bytes: 1000000 }\n# pipelines/b.yaml\nextends: model-requests\nlimits: { body_bytes: 2000000 }',
  },
  C2014: {
    title: 'An entry is for a protocol that the file does not serve',
    explanation: '`protocols` limits an entry to some of the pipelines of a file; none of them serves this protocol.',
    example:
      'match: { methods: [POST], paths: [/mine], protocol: messages }\non_error: [{ stage: fail, protocols: [chat], options: { error: overloaded } }]',
  },
  C2016: {
    title: 'The pipeline has such a rule already',
    explanation: 'The named rules of an extension stand beside those of the pipeline, so their names have to differ.',
    example:
      '# pipelines/mine.yaml\npipeline: mine\nrules: { is-stream: { var: request.stream } }\n# pipelines/more.yaml\nextends: mine\nrules: { is-stream: { "===": [{ var: request.stream }, true] } }',
  },
  C2017: {
    title: 'A new pipeline is made from several',
    explanation:
      'An extension with `pipeline` makes a new pipeline out of one other, and one with `match` says which requests that is for. Without them, it changes every pipeline that it names.',
    example: 'extends: model-requests\npipeline: mine\nmatch: { methods: [POST], paths: [/mine], protocol: messages }',
  },
  C2018: {
    title: 'One of several pipelines has no name',
    explanation: 'Where `match` is a list, each of its entries makes a pipeline, and needs a name for it.',
    example: 'match: [{ methods: [POST], paths: [/mine], protocol: messages }]',
  },
} as const;
