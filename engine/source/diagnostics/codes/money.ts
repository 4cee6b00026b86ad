/** Diagnostics of prices and spend limits. */
export const MONEY_CODES = {
  C4040: {
    title: 'Callers of different groups share a limit',
    explanation:
      '`limit_usd_by_group` says how much a caller may spend by its groups. Where a limit is counted for many callers together, two of them could disagree about it; so it must be counted by user or token.',
    example:
      'spend_limits:\n  rules: [{ name: staff, scope: team, window: month, limit_usd_by_group: { staff: 500 } }]\ntoken_groups: [{ name: staff, models: ["*"] }]',
  },
  C4041: {
    title: 'The model has no price',
    explanation:
      'What has no price would be free by accident. A model has `pricing`, or `prices` says at every upstream and at any time what it costs: in `rows`, or with the price of all others, `unknown_model`. Models of large providers need none of it: their prices are in the catalogue that comes along, see `appscli prices show`.',
    example: 'models: [{ id: coder-1 }]   # and no `prices`',
  },
  C4042: {
    title: 'The price holds on no day',
    explanation:
      'A price holds from midnight UTC of the day `from` until midnight UTC of the day `until`, which is the first day it no longer holds.',
    example: 'prices:\n  rows: [{ models: [coder-1], multiplier: 0.8, from: 2027-01-01, until: 2027-01-01 }]',
  },
  W7190: {
    title: 'The catalogue does not know the model',
    explanation:
      'Without a section `models` the models are those on the lists of the upstreams that the catalogue of prices knows. A rule or token group for any other model applies to no request. With a section `models` only what it lists exists, with prices of its own or of the catalogue.',
    example: 'routing: { default_upstream: main, rules: [{ models: [coder-1], upstream: main }] }   # and no `models`',
  },
  W7070: {
    title: 'A price entry never holds',
    explanation:
      'Of the entries under `prices.rows` the first that matches model, upstream and date decides. This one matches no model, or entries above it match whatever it would.',
    example: 'prices:\n  rows: [{ models: ["*"], multiplier: 0.9 }, { models: [coder-1], multiplier: 0.8 }]',
  },
} as const;
