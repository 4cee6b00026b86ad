import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { TraceIdRatioBasedSampler } from '@opentelemetry/sdk-trace';
import { isInRatio, newTraceId } from '../../../engine/base/kit/net/trace-context.ts';

test("a share of all traces is the SDK sampler's", () => {
  for (const ratio of [0, 0.001, 0.1, 0.5, 0.99, 1]) {
    const sampler = new TraceIdRatioBasedSampler(ratio);
    for (let i = 0; i < 500; i++) {
      const trace_id = newTraceId();
      const { decision } = sampler.shouldSample(ROOT_CONTEXT, trace_id);
      assert.equal(isInRatio(trace_id, ratio), decision === 2, `${trace_id} at ${ratio}`);
    }
  }
});
