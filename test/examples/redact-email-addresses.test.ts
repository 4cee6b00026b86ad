/** The stage of examples/redact-email-addresses: what it takes for an address. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { StageDefinition } from '../../engine/api.ts';
import { createFindings } from '../../engine/base/source/findings.ts';
import { openStage, replaceTexts } from '../../engine/edge/simulate/index.ts';
import { loadStages } from '../../engine/pipeline/load/stage-modules.ts';
import { REPOSITORY } from '../support/readme-blocks.ts';

const FILE = join(REPOSITORY, 'examples/redact-email-addresses/stages/redact-email-addresses.ts');
const { stages } = await loadStages([], [FILE], createFindings());
const stage = stages.get('redact-email-addresses') as StageDefinition;

function redact(pieces: readonly string[], options: object = {}) {
  const { hooks, request } = openStage(stage, { options });
  return replaceTexts(hooks.rewrite!(request()), pieces);
}

describe('redact-email-addresses', () => {
  for (const [said, left] of [
    ['Ask ann@example.com.', 'Ask *.'],
    ['<Ann.Lee+news@mail.example.co.uk>', '<*>'],
    ['mailto:ann_lee@example.com?subject=hi', 'mailto:*?subject=hi'],
    ['änne@bücher.example und 李@例え.テスト', '* und *'],
    ['a@b.co,c@d.co;e@f.co', '*,*;*'],
    ['not @home, nor ann@work, nor a @ b.com', 'not @home, nor ann@work, nor a @ b.com'],
    ['pip install x@1.2.3 and @scope/name@1.0.0', 'pip install x@1.2.3 and @scope/name@1.0.0'],
    [`${'a'.repeat(60)}@${'b'.repeat(60)}.${'c'.repeat(60)}.example.com`, '*'],
  ] as const) {
    test(`turns ${said.slice(0, 40)}`, () => {
      const { text } = redact([said], { replacement: '*' });
      assert.equal(text, left);
      assert.equal(redact([...said], { replacement: '*' }).text, left);
    });
  }

  test('leaves the domains that are named', () => {
    const { text, replaced } = redact(['ann@Example.com or bob@example.org'], { kept_domains: ['example.com'] });
    assert.deepEqual([text, replaced], ['ann@Example.com or [e-mail address]', 1]);
  });

  test('delays no more than the last word of a stream', () => {
    const { pieces } = redact(['Write to an', 'n@exam', 'ple.com or', ' call']);
    assert.deepEqual(pieces, ['Write to ', '', '[e-mail address] ', 'or ', 'call']);
  });
});

test('the result of a hook is checked', () => {
  for (const [rewriting, problem] of [
    [null, /`replacements`/],
    [{}, /`replacements` must be a list/],
    [{ replacements: [{ find: 'a', replace: 'b' }] }, /regular expression/],
    [{ replacements: [{ find: /a/, replace: 1 }] }, /string or a function/],
    [{ replacements: [], window_characters: 5000 }, /from 1 to 4096/],
    [{ replacements: [], never_contains: ' ' }, /one character/],
    [{ replacements: [], kinds: ['prose'] }, /text, refusal, reasoning, tool_input, other/],
  ] as const)
    assert.throws(() => replaceTexts(rewriting as never, []), problem);
  assert.deepEqual(replaceTexts(undefined, ['a', 'b']), { text: 'ab', pieces: ['a', 'b'], replaced: 0 });
});
