const SHAPES = {
  menu: 'M4 7h16M4 12h16M4 17h16',
  close: 'M6 6l12 12M18 6L6 18',
  home: 'M4 11l8-7 8 7v9h-5v-6H9v6H4z',
  requests: 'M4 6h16M4 12h10M4 18h13',
  usage: 'M5 20V10m5 10V4m5 16v-7m5 7V8',
  limits: 'M4 18a8 8 0 1 1 16 0M12 18l4-6',
  tokens: 'M14 8a4 4 0 1 1-3.5 6L4 14v4h3v-2h2v-2M15.5 10.5h.01',
  upstreams: 'M4 7h16v4H4zM4 14h16v4H4zM7 9h.01M7 16h.01',
  config: 'M5 4h9l5 5v11H5zM14 4v5h5M8.5 13h7M8.5 16.5h5',
  policies: 'M12 3l8 3v6c0 4.5-3.2 7.6-8 9-4.8-1.400-8-4.500-8-9V6zM9 12l2 2 4-4',
  audit: 'M6 4h12v16l-3-2-3 2-3-2-3 2zM9 9h6M9 13h6',
  people:
    'M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM3 20c.5-3.500 3-5.500 6-5.500s5.500 2 6 5.500M16 5a3 3 0 0 1 0 6M17.500 15c2 .6 3.200 2.200 3.500 5',
  sessions: 'M4 5h16v11H4zM9 20h6M12 16v4',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 13l4 4L19 7',
  alarm: 'M12 4l9 16H3zM12 10v4m0 3h.01',
  info: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5m0-8h.01',
  pause: 'M8 5v14M16 5v14',
  play: 'M7 5l12 7-12 7z',
  down: 'M12 4v11m0 0l-4-4m4 4l4-4M5 20h14',
  next: 'M9 5l7 7-7 7',
  gateway: 'M4 12h5m6 0h5M9 7v10m6-10v10',
} as const;

/** Name of a drawing. */
export type IconName = keyof typeof SHAPES;

/** A small drawing beside a word that says the same; screen readers leave it out. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={SHAPES[name]} />
    </svg>
  );
}
