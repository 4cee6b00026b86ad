import type { TestGateway } from '../gateway.ts';
import { parsePrometheusText } from './prometheus-text.ts';

/** Section `telemetry` of a gateway whose metrics `readMetrics` can read. */
export const READABLE_METRICS = { metrics: { listen: '127.0.0.1:0' } } as const;

export function metricsUrl({ logs }: Pick<TestGateway, 'logs'>): string {
  const line = logs.findLast((each) => each.includes('metrics are served at'));
  const { port } = JSON.parse(line ?? '{}') as { readonly port?: number };
  return `http://127.0.0.1:${port}/metrics`;
}

/** Reads the metrics of a gateway: a function that gives the value of a series, by some of its labels. */
export async function readMetrics({
  logs,
}: Pick<TestGateway, 'logs'>): Promise<
  (name: string, labels?: Readonly<Record<string, string>>) => number | undefined
> {
  const families = parsePrometheusText(await (await fetch(metricsUrl({ logs }))).text());
  return (name, labels = {}) => {
    const samples = [...families.values()].flatMap((family) => family.samples);
    const wanted = Object.entries(labels);
    return samples.find(
      (sample) => sample.name === name && wanted.every(([key, value]) => sample.labels[key] === value),
    )?.value;
  };
}
