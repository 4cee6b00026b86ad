import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { createGroupCommit } from '../../engine/base/kit/group-commit.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a group commit', () => {
  it('runs concurrent work in one execution, and work queued meanwhile in the next', async () => {
    const batches: (readonly number[])[] = [];
    let finish = () => {};
    const group = createGroupCommit({
      lanes: 1,
      max_items: 100,
      isolates: () => false,
      execute(items: readonly number[]) {
        batches.push(items);
        return new Promise<number[]>((resolve) => {
          finish = () => resolve(items.map((item) => item * 2));
        });
      },
    });
    const first = [1, 2, 3].map((item) => group.run(item));
    await turn();
    const second = [4, 5].map((item) => group.run(item));
    await turn();
    finish();
    assert.deepEqual(await Promise.all(first), [2, 4, 6]);
    await turn();
    finish();
    assert.deepEqual(await Promise.all(second), [8, 10]);
    assert.deepEqual(batches, [
      [1, 2, 3],
      [4, 5],
    ]);
  });

  it('gives each caller its own result and fails no other, within its bounds', async () => {
    const plan = fc.record({
      items: fc.array(fc.record({ bad: fc.boolean(), late: fc.boolean() }), { maxLength: 40 }),
      lanes: fc.integer({ min: 1, max: 3 }),
      max_items: fc.integer({ min: 1, max: 10 }),
    });
    await fc.assert(
      fc.asyncProperty(plan, async ({ items, lanes, max_items }) => {
        let running = 0;
        const group = createGroupCommit({
          lanes,
          max_items,
          isolates: () => true,
          async execute(batch: readonly number[]) {
            assert.ok(++running <= lanes);
            assert.ok(batch.length <= max_items);
            await turn();
            running--;
            if (batch.some((i) => items[i]!.bad)) throw new Error(`bad ${batch.join()}`);
            return batch;
          },
        });
        const run = async (i: number) => {
          if (items[i]!.late) await turn();
          return group.run(i);
        };
        const results = await Promise.allSettled(items.map((_, i) => run(i)));
        results.forEach((result, i) => {
          if (items[i]!.bad) assert.equal(result.status === 'rejected' && result.reason.message, `bad ${i}`);
          else assert.equal(result.status === 'fulfilled' && result.value, i);
        });
      }),
    );
  });

  it('fails together when no single entry is at fault', async () => {
    let executions = 0;
    const group = createGroupCommit<number, number>({
      lanes: 2,
      max_items: 10,
      isolates: () => false,
      async execute() {
        executions++;
        throw new Error('the store is away');
      },
    });
    const results = await Promise.allSettled([1, 2, 3].map((item) => group.run(item)));
    assert.ok(results.every(({ status }) => status === 'rejected'));
    assert.equal(executions, 1);
  });
});
