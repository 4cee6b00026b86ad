import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { systemClock } from '../../engine/base/kit/clock.ts';
import { createToken } from '../../engine/domain/identity/tokens/tokens.ts';
import type { RunningGateway } from '../../engine/edge/gateway/start-gateway.ts';

/** Whether the gateway accepts a token, tested by listing the models. */
async function works(url: string, token: string): Promise<boolean> {
  const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${token}` } });
  return response.ok;
}

/** The token of an earlier start if it still works, or a new one; stored in `file`, readable for the owner only. */
export async function obtainToken(gateway: RunningGateway, file: string): Promise<string> {
  const kept = await readFile(file, 'utf8').catch(() => '');
  if (kept !== '' && (await works(gateway.url, kept))) return kept;
  const properties = { user: 'you@example.com', group: 'everyone', name: 'demo', team: 'demo-team' };
  const actor = { kind: 'command', name: 'demo' } as const;
  const { token } = await createToken({ database: gateway.database, clock: systemClock, actor }, properties);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, token, { mode: 0o600 });
  return token;
}
