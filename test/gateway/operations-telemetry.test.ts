import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import type { Operation } from '../../engine/base/contract/telemetry.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { ConfigurationError } from '../../engine/base/source/configuration-error.ts';
import { configHash } from '../../engine/domain/telemetry/config-hash.ts';
import { beginReload, type ReloadEnd, recordStart } from '../../engine/edge/gateway/reload.ts';

const CONFIG = { server: { listen: '127.0.0.1:8080' } } as unknown as GatewayConfig;

/** Telemetry of a reload with this result after 30 ms. */
function recordOf(end: ReloadEnd): Operation {
  const recorded: Operation[] = [];
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const recordEnd = beginReload({ telemetry: { operation: (operation) => void recorded.push(operation) }, clock });
  clock.advance(30);
  recordEnd(end);
  assert.equal(recorded.length, 1);
  return recorded[0]!;
}

describe('telemetry of a reload', () => {
  it('the number of changed files, and the restart-only keys', () => {
    assert.deepEqual(recordOf({ changed_files: 2, needs_restart: ['server.listen'], config: CONFIG }), {
      name: 'gateway.reload',
      attributes: {
        'gateway.reload.result': 'in_force',
        'gateway.reload.changed_files': 2,
        'gateway.reload.needs_restart': ['server.listen'],
        'gateway.config.hash': configHash(CONFIG),
      },
      began_at: Date.parse('2026-03-10T12:00:00Z'),
      duration_ms: 30,
    });
  });

  it('the findings that stopped it, each code once and none of the text', () => {
    const finding = (severity: 'error' | 'warning', code: string) => ({ severity, code, message: 'planted' });
    const diagnostics = [finding('error', 'C4011'), finding('error', 'C4011'), finding('warning', 'W1001')];
    const findings = { diagnostics } as unknown as ConstructorParameters<typeof ConfigurationError>[1];
    const recorded = recordOf({ error: new ConfigurationError('gateway.yaml', findings) });
    assert.deepEqual(recorded.attributes, { 'gateway.reload.result': 'failed', 'gateway.reload.findings': ['C4011'] });
    assert.equal(recorded.error_type, 'invalid_configuration');
  });

  it('that it failed for another reason, without its message', () => {
    const recorded = recordOf({ error: new Error('planted') });
    assert.equal(recorded.error_type, 'not_usable');
    assert.doesNotMatch(JSON.stringify(recorded), /planted/);
  });
});

it('telemetry has the start, which began with the process', () => {
  const recorded: Operation[] = [];
  recordStart({ operation: (operation) => void recorded.push(operation) }, 7, CONFIG);
  const [{ name, attributes, began_at, duration_ms }] = recorded as [Operation];
  assert.deepEqual(
    [name, attributes],
    ['gateway.start', { 'gateway.start.pipelines': 7, 'gateway.config.hash': configHash(CONFIG) }],
  );
  assert.equal(began_at, performance.timeOrigin);
  assert.ok(duration_ms > 0);
});
