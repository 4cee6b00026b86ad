import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BASE, replace, told } from './support.ts';

const rule = (more: string) => `access:\n  rules:\n    - { name: no-interns, models: [coder-*], ${more} }\n`;
const INTERNS = 'when: { in: [interns, { var: principal.groups }] }';

describe('rules on who may ask for what', () => {
  it('are told as they come, by whom they refuse', async () => {
    assert.deepEqual(await told((text) => text + rule(`${INTERNS}, mode: shadow`)), [
      'Access rules',
      '  no-interns: is new: would refuse, in shadow mode, when request.model matches',
      '    "coder-*" and principal.groups has "interns"',
    ]);
  });

  it('are told as they are enforced, change what clients are told, and go', async () => {
    const base = BASE + rule(`${INTERNS}, mode: shadow`);
    const enforced = await told(replace('mode: shadow', 'message: Ask Bob.'), { base });
    assert.match(
      enforced.join(' ').replaceAll(/\s+/g, ' '),
      /^Access rules no-interns: would refuse, in shadow mode, .* "interns" -> refuses .* "interns" tells clients: .* -> Ask Bob\.$/,
    );
    const gone = await told(() => BASE, { base });
    assert.match(gone.join(' '), /no-interns: is gone; before it would have refused, in shadow mode, when/);
  });
});

describe('aliases of groups', () => {
  it('are told by the group that gains or loses them', async () => {
    const base = BASE.replace('{ id: coder-2,', '{ id: coder-2, aliases: [{ name: best, groups: [research] }],');
    assert.deepEqual(await told(replace('groups: [research] }]', 'groups: [research, engineers] }]'), { base }), [
      'Other settings',
      '  models.coder-2.alias.best.groups: ["research"] -> ["research","engineers"]',
    ]);
    assert.deepEqual(await told(replace(' aliases: [{ name: best, groups: [research] }],', ''), { base }), [
      'Other settings',
      '  models.coder-2.alias.best: {"groups":["research"]} -> nothing',
    ]);
  });
});
