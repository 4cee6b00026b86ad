import { randomUUID } from 'node:crypto';
import { programVersion } from '../../kit/package-root.ts';

/** Of this process, as long as it runs. */
const INSTANCE = randomUUID();

/** What everything that is sent says about its sender; what is configured comes before what the gateway knows. */
export function resourceAttributes(configured: Readonly<Record<string, string>>): Record<string, string> {
  return {
    'service.name': 'appscli-gateway',
    'service.version': programVersion(),
    'service.instance.id': INSTANCE,
    'telemetry.sdk.language': 'nodejs',
    'telemetry.sdk.name': 'opentelemetry',
    ...configured,
  };
}
