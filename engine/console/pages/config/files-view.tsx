import { usePageSearch } from '../../api/use-search.ts';
import { SelectField } from '../../parts/field.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { Here, linesByFile, ships, type Version } from './links.tsx';
import { YamlLines } from './yaml-lines.tsx';

/** The files of a version as they were loaded. */
export function FilesView({ version }: { readonly version: Version }) {
  const [{ file: asked, line }, change] = usePageSearch();
  const { files } = version;
  const file = files.find(({ name }) => name === asked) ?? (asked === undefined ? files[0] : undefined);
  const own = files.filter(({ name }) => !ships(name));
  const shipped = files.filter(({ name }) => ships(name));
  const number = Number(line);
  const marked = Number.isInteger(number) && number > 0 ? { marked: { from: number, to: number } } : {};
  const options = [...own, ...shipped].map(({ name }) => ({ value: name, text: name }));
  return (
    <div className="config-files">
      <nav aria-label="Files" className="config-file-list">
        <FileList title="Yours" files={own} open={file?.name} />
        <FileList title="Ship with the program" files={shipped} open={file?.name} />
      </nav>
      <div className="config-file-choice">
        <SelectField
          label="File"
          options={file === undefined ? [{ value: '', text: 'Choose a file' }, ...options] : options}
          value={file?.name ?? ''}
          onChange={({ target }) => change({ view: 'files', file: target.value, line: undefined })}
        />
      </div>
      <Card title={file?.name ?? asked ?? 'Files'}>
        {file === undefined && (
          <EmptyState title="This version has no such file">
            <p>Choose one of the list.</p>
          </EmptyState>
        )}
        {file !== undefined && file.text === null && (
          <p className="soft">
            Its text is not kept: it is code, a certificate or very long.
            {file.digest !== null && ` The hash of its content is ${file.digest}.`}
          </p>
        )}
        {file?.text != null && (
          <>
            <p className="soft small">As it was loaded. What is or looks like a secret is shown as stars.</p>
            <YamlLines
              key={file.name}
              label={file.name}
              lines={linesByFile([file]).get(file.name) ?? []}
              {...marked}
              scrolls
            />
          </>
        )}
      </Card>
    </div>
  );
}

function FileList({
  title,
  files,
  open,
}: {
  readonly title: string;
  readonly files: Version['files'];
  readonly open: string | undefined;
}) {
  if (files.length === 0) return null;
  return (
    <>
      <h2 className="config-list-title">{title}</h2>
      <ul>
        {files.map(({ name }) => (
          <li key={name} className={name === open ? 'open' : undefined} aria-current={name === open || undefined}>
            <Here to={{ view: 'files', file: name }}>{name.replace(/^appscli\//, '')}</Here>
          </li>
        ))}
      </ul>
    </>
  );
}
