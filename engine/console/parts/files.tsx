import { Icon } from './icon.tsx';

/** Links to all that the filters select, as files. */
export function Files({ lines, csv }: { lines: string; csv: string }) {
  return (
    <div className="files">
      <a className="button secondary" href={csv} download>
        <Icon name="down" />
        CSV
      </a>
      <a className="button secondary" href={lines} download>
        <Icon name="down" />
        JSON lines
      </a>
    </div>
  );
}
