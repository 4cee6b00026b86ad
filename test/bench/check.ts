/** `node test/bench/check.ts [runs]`: how long `appscli check` takes on a large configuration, as a whole process. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { writeLargeConfiguration } from './large-configuration.ts';
import { median } from './statistics.ts';

const GOAL_MS = 1000;
const LAUNCHER = resolve(import.meta.dirname, '../../engine/bin/appscli.js');

const runs = Number(process.argv[2] ?? 9);
const directory = mkdtempSync(join(tmpdir(), 'appscli-bench-'));
try {
  const lines = writeLargeConfiguration(directory);
  const argv = [LAUNCHER, 'check', '--config', join(directory, 'gateway.yaml')];
  const times = Array.from({ length: runs }, () => {
    const started = performance.now();
    const { status, stdout } = spawnSync(process.execPath, argv, {
      env: { ...process.env, UPSTREAM_KEY: 'set' },
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`the check failed:\n${stdout}`);
    return performance.now() - started;
  });
  const middle = Math.round(median(times));
  const spread = `${Math.round(Math.min(...times))} to ${Math.round(Math.max(...times))}`;
  console.log(
    `check of ${lines} lines with 500 rules: median ${middle} ms of ${runs} runs (${spread} ms), goal ${GOAL_MS} ms`,
  );
  process.exitCode = middle < GOAL_MS ? 0 : 1;
} finally {
  rmSync(directory, { recursive: true, force: true });
}
