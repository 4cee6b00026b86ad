export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface PrometheusFamily {
  readonly type: string;
  readonly help: string;
  readonly samples: readonly Sample[];
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = `[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"`;
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)\\})? ([-+0-9.eE]+|\\+Inf|-Inf|NaN)$`);
const SUFFIXES: Readonly<Record<string, string>> = { histogram: '(?:_bucket|_sum|_count)' };

/**
 * Reads text in Prometheus' text format 0.0.4 as strictly as its own parsers: lines of a metric stand together behind its HELP and
 * TYPE, no series comes twice, buckets only grow and end with +Inf.
 */
export function parsePrometheusText(text: string): ReadonlyMap<string, PrometheusFamily> {
  const families = new Map<string, { type: string; help: string; samples: Sample[] }>();
  const seen = new Set<string>();
  let current = '';
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const comment = new RegExp(`^# (HELP|TYPE) (${NAME}) (.*)$`).exec(line);
    if (comment !== null) {
      const [, kind, name = '', rest = ''] = comment;
      if (kind === 'HELP' && families.has(name)) throw new Error(`${name} begins twice`);
      if (kind === 'HELP') families.set(name, { type: '', help: rest, samples: [] });
      else families.get(name)!.type = rest;
      current = name;
      continue;
    }
    const [, name = '', labels = '', value = ''] = SAMPLE.exec(line) ?? [];
    const family = families.get(current);
    if (family === undefined || !new RegExp(`^${current}${SUFFIXES[family.type] ?? ''}$`).test(name))
      throw new Error(`this line is none of ${current}: ${line}`);
    const key = `${name}{${labels.split(',').toSorted().join(',')}}`;
    if (seen.has(key)) throw new Error(`this series comes twice: ${key}`);
    seen.add(key);
    family.samples.push({ name, labels: labelsOf(labels), value: Number(value.replace('Inf', 'Infinity')) });
  }
  for (const [name, { type, samples }] of families) if (type === 'histogram') checkBuckets(name, samples);
  return families;
}

function labelsOf(text: string): Record<string, string> {
  const labels = text.matchAll(/([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"/g);
  const plain = (value: string) => value.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c));
  return Object.fromEntries([...labels].map(([, name = '', value = '']) => [name, plain(value)]));
}

function checkBuckets(name: string, samples: readonly Sample[]): void {
  const by_series = Map.groupBy(samples, ({ labels: { le: _, ...others } }) => JSON.stringify(others));
  for (const [series, all] of by_series) {
    const buckets = all.filter((sample) => sample.name === `${name}_bucket`).map(({ value }) => value);
    const count = all.find((sample) => sample.name === `${name}_count`)?.value;
    const le = all.filter((sample) => sample.name === `${name}_bucket`).at(-1)?.labels.le;
    if (le !== '+Inf' || buckets.at(-1) !== count || buckets.some((value, at) => value < (buckets[at - 1] ?? 0)))
      throw new Error(`the buckets of ${name}${series} do not add up`);
  }
}
