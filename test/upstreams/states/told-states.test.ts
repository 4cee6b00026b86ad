import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { UpstreamState } from '../../../engine/contract/forwarding.ts';
import { tellUpstreams } from '../../../engine/upstreams/states/told-states.ts';

const until = Date.parse('2027-01-31T08:00:05Z');
const later = until + 60_000;

for (const [what, states, told] of [
  ['one that is well is closed', [{ upstream: 'main', state: 'closed' }], { main: { state: 'closed' } }],
  [
    'an upstream that cannot be reached says until when, and not why',
    [{ upstream: 'main', state: 'open', until, last: 'ECONNREFUSED 10.0.0.7:443' }],
    { main: { state: 'open', until: '2027-01-31T08:00:05.000Z' } },
  ],
  [
    'models are counted and not named',
    [
      { upstream: 'main', state: 'closed' },
      { upstream: 'main', upstream_model: 'secret-1', state: 'limited', until },
      { upstream: 'main', upstream_model: 'secret-2', state: 'open', until: later },
      { upstream: 'main', upstream_model: 'secret-3', state: 'open', until },
    ],
    { main: { state: 'open', until: '2027-01-31T08:00:05.000Z', models: 2 } },
  ],
  [
    'what holds of an upstream as a whole comes before what holds of a model',
    [
      { upstream: 'main', upstream_model: 'secret-1', state: 'credential' },
      { upstream: 'main', state: 'half_open', until },
    ],
    { main: { state: 'half_open', until: '2027-01-31T08:00:05.000Z' } },
  ],
  [
    'breakers that only tell say so',
    [{ upstream: 'main', state: 'open', until, shadow: true }],
    { main: { state: 'open', until: '2027-01-31T08:00:05.000Z', mode: 'shadow' } },
  ],
  [
    'a drained one is drained whatever else',
    [
      { upstream: 'main', state: 'open', until },
      { upstream: 'main', state: 'drained' },
      { upstream: 'spare', state: 'closed' },
    ],
    { main: { state: 'drained' }, spare: { state: 'closed' } },
  ],
] as const satisfies readonly (readonly [string, readonly UpstreamState[], object])[]) {
  test(what, () => assert.deepEqual(tellUpstreams(states), told));
}
