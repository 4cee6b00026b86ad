/** How the values of a panel are shown: units of Grafana. */
export type Unit =
  | 'reqps'
  | 'cps'
  | 'short'
  | 's'
  | 'percentunit'
  | 'currencyUSD'
  | 'bytes'
  | 'none'
  | 'dateTimeFromNow';

/** One query of a panel, and what its series are called; labels stand in double braces. */
export type Query = readonly [expression: string, legend: string];

/** A value from which on it is shown in a colour. */
type Step = readonly [from: number, colour: 'green' | 'yellow' | 'orange' | 'red' | 'blue'];

interface Common {
  readonly title: string;
  /** What it shows and what to do about it. */
  readonly description: string;
  readonly queries: readonly Query[];
  readonly unit: Unit;
  /** Of the 24 columns; 12 when it is left out. */
  readonly width?: number;
  readonly height?: number;
  readonly max?: number;
  readonly steps?: readonly Step[];
}

/** What is shown, and how. */
export interface Panel extends Common {
  readonly type: 'timeseries' | 'stat' | 'bargauge' | 'table' | 'state-timeline';
  readonly options: object;
  readonly custom: object;
  readonly instant: boolean;
  readonly mappings?: readonly object[];
}

/** Lines over time. */
export function lines(panel: Common): Panel {
  return {
    ...panel,
    type: 'timeseries',
    instant: false,
    options: {
      legend: { displayMode: 'table', placement: 'bottom', showLegend: true, calcs: ['mean', 'max', 'lastNotNull'] },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    custom: { lineWidth: 1, fillOpacity: 10, showPoints: 'auto', spanNulls: false },
  };
}

/** Areas over time, one on top of the other. */
export function areas(panel: Common): Panel {
  const base = lines(panel);
  return { ...base, custom: { ...base.custom, fillOpacity: 60, stacking: { mode: 'normal', group: 'A' } } };
}

/** One number. */
export function number(panel: Common): Panel {
  return {
    width: 4,
    height: 4,
    ...panel,
    type: 'stat',
    instant: true,
    options: {
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      colorMode: panel.steps ? 'background' : 'value',
      graphMode: 'none',
      textMode: 'auto',
      justifyMode: 'auto',
      orientation: 'auto',
      showPercentChange: false,
      percentChangeColorMode: 'standard',
      wideLayout: true,
    },
    custom: {},
  };
}

/** A bar for each series, longest first. */
export function bars(panel: Common): Panel {
  return {
    ...panel,
    type: 'bargauge',
    instant: true,
    options: {
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      displayMode: 'gradient',
      orientation: 'horizontal',
      showUnfilled: true,
      valueMode: 'color',
      namePlacement: 'auto',
      sizing: 'auto',
      minVizHeight: 16,
      minVizWidth: 8,
      maxVizHeight: 40,
      legend: { displayMode: 'hidden', placement: 'bottom', showLegend: false, calcs: [] },
    },
    custom: {},
  };
}

/** A row for each series of its one query. */
export function rows(panel: Common): Panel {
  return {
    ...panel,
    type: 'table',
    instant: true,
    options: { frameIndex: 0, showHeader: true, cellHeight: 'sm' },
    custom: { align: 'auto', cellOptions: { type: 'auto' }, filterable: true, inspect: false },
  };
}

/** Which state each series was in, over time. */
export function states(panel: Common, names: Readonly<Record<string, readonly [text: string, colour: string]>>): Panel {
  const options = Object.fromEntries(
    Object.entries(names).map(([value, [text, color]], index) => [value, { text, color, index }]),
  );
  return {
    ...panel,
    type: 'state-timeline',
    instant: false,
    mappings: [{ type: 'value', options }],
    options: {
      mergeValues: true,
      showValue: 'auto',
      alignValue: 'left',
      rowHeight: 0.9,
      legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
      tooltip: { mode: 'single', sort: 'none' },
    },
    custom: { lineWidth: 0, fillOpacity: 70 },
  };
}
