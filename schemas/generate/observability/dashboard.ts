import { METRICS } from '../../../engine/telemetry/catalogue/metrics.ts';
import { prometheusName } from '../../../engine/telemetry/catalogue/prometheus-names.ts';
import type { Panel } from './panels.ts';

/** Panels below a heading. */
export interface Section {
  readonly title: string;
  readonly panels: readonly Panel[];
}

/** A page of Grafana. */
export interface Dashboard {
  /** Part of its address and of its file's name. */
  readonly id: string;
  readonly title: string;
  readonly description: string;
  readonly sections: readonly Section[];
}

/** Which gateways a page shows: those picked in its lists. */
export const PICKED = 'job=~"$job", instance=~"$instance"';
/** The range of rates that Grafana finds fit for what is shown. */
export const RATE_RANGE = '$__rate_interval';

const SOURCE = { type: 'prometheus', uid: '$datasource' };
const COLUMNS = 24;
/** Grafana 10 and later read it, and make it their own version. */
const SCHEMA_VERSION = 39;

function labelPicker(name: string, label: string, matchers: string): object {
  const query = `label_values(${prometheusName('gateway.build.info', METRICS['gateway.build.info'])}${matchers}, ${name})`;
  return {
    name,
    label,
    type: 'query',
    datasource: SOURCE,
    query: { query, refId: 'labels' },
    includeAll: true,
    allValue: '.*',
    multi: true,
    refresh: 2,
    sort: 1,
    current: { selected: true, text: ['All'], value: ['$__all'] },
  };
}

const VARIABLES = [
  { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus', refresh: 1, hide: 0 },
  labelPicker('job', 'Service', ''),
  labelPicker('instance', 'Gateway', '{job=~"$job"}'),
];

/** All rows of a table have the same time. */
const WITHOUT_TIME = { id: 'organize', options: { excludeByName: { Time: true }, indexByName: {}, renameByName: {} } };

function fieldDefaults({ unit, max, steps, custom, mappings }: Panel): object {
  return {
    unit,
    min: 0,
    ...(max !== undefined && { max }),
    color: { mode: steps ? 'thresholds' : 'palette-classic' },
    thresholds: {
      mode: 'absolute',
      steps: [
        { color: steps ? 'green' : 'blue', value: null },
        ...(steps ?? []).map(([value, color]) => ({ color, value })),
      ],
    },
    ...(mappings && { mappings }),
    custom,
  };
}

function panelJson(panel: Panel, id: number, place: object): object {
  return {
    id,
    title: panel.title,
    description: panel.description,
    type: panel.type,
    datasource: SOURCE,
    gridPos: place,
    targets: panel.queries.map(([expr, legendFormat], index) => ({
      refId: String.fromCharCode(65 + index),
      datasource: SOURCE,
      editorMode: 'code',
      expr,
      legendFormat,
      ...(panel.instant ? { instant: true, range: false } : { range: true }),
      ...(panel.type === 'table' && { format: 'table' }),
    })),
    ...(panel.type === 'table' && { transformations: [WITHOUT_TIME] }),
    fieldConfig: { defaults: fieldDefaults(panel), overrides: [] },
    options: panel.options,
  };
}

/** Places panels in rows from left to right, each as high as its highest. */
function placed(sections: readonly Section[]): object[] {
  const all: object[] = [];
  let [x, y, row_height] = [0, 0, 0];
  const breakRow = () => {
    y += row_height;
    [x, row_height] = [0, 0];
  };
  for (const { title, panels } of sections) {
    breakRow();
    all.push({
      id: all.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: COLUMNS, h: 1 },
      panels: [],
    });
    y += 1;
    for (const panel of panels) {
      const { width = 12, height = 8 } = panel;
      if (x + width > COLUMNS) breakRow();
      all.push(panelJson(panel, all.length + 1, { x, y, w: width, h: height }));
      x += width;
      row_height = Math.max(row_height, height);
    }
  }
  return all;
}

/** The page as Grafana reads it from a file. */
export function dashboardJson({ id, title, description, sections }: Dashboard): object {
  return {
    uid: `appscli-${id}`,
    title: `Model gateway: ${title}`,
    description,
    tags: ['appscli', 'model-gateway'],
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    timezone: 'browser',
    links: [
      {
        title: 'Model gateway',
        type: 'dashboards',
        tags: ['model-gateway'],
        asDropdown: true,
        includeVars: true,
        keepTime: true,
        icon: 'external link',
        targetBlank: false,
        tooltip: '',
        url: '',
      },
    ],
    annotations: { list: [] },
    templating: { list: VARIABLES },
    panels: placed(sections),
  };
}
