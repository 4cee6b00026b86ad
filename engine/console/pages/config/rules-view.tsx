import { useEffect, useMemo, useRef } from 'react';
import { usePageSearch } from '../../api/use-search.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { Here, linesByFile, Place, type Rule, ruleKey, ships, type Version } from './links.tsx';
import { YamlLines } from './yaml-lines.tsx';

/** Every rule in words, with what is written for it beside. */
export function RulesView({ version }: { readonly version: Version }) {
  const [search, change] = usePageSearch();
  const { rules, rule_kinds, files } = version;
  const texts = useMemo(() => linesByFile(files), [files]);
  if (rules === null) {
    return (
      <Card>
        <EmptyState title="A configuration with errors has no rules">
          <p>
            <Here to={{ view: 'findings' }}>Its findings</Here> say what to correct.
          </p>
        </EmptyState>
      </Card>
    );
  }
  const asked = search.rule;
  const words = (search.find ?? '').trim().toLowerCase();
  const fits = (rule: Rule) =>
    words === '' || [rule.name, rule.text, rule.effect, rule.file].some((text) => text.toLowerCase().includes(words));
  const asks_shipped = rules.some((rule) => ships(rule.file) && asked !== undefined && isAsked(rule, asked));
  const with_shipped = search.shipped === 'yes' || asks_shipped;
  const own = rules.filter(({ file }) => !ships(file));
  const shown = (with_shipped ? rules : own).filter(fits);
  const shipped = rules.length - own.length;
  return (
    <div className="config-view">
      <div className="filters">
        <TextField
          label="Find a rule"
          type="search"
          value={search.find ?? ''}
          placeholder="Name, condition or effect"
          onChange={({ target }) => change({ find: target.value, rule: undefined }, { replace: true })}
        />
        {shipped > 0 && (
          <Button
            aria-pressed={with_shipped}
            onClick={() => change({ shipped: with_shipped ? undefined : 'yes', rule: undefined }, { replace: true })}
          >
            {with_shipped ? 'Hide' : 'Show'} {shipped} that ship with the program
          </Button>
        )}
        <p className="soft small config-count" role="status">
          {shown.length} of {rules.length} rules
        </p>
      </div>
      {asked !== undefined && !rules.some((rule) => isAsked(rule, asked)) && (
        <p className="config-note">There is no rule {asked} in this version.</p>
      )}
      {shown.length === 0 && (
        <Card>
          <EmptyState title={words === '' ? 'No rules of your own' : 'No rule fits'}>
            {words === '' ? (
              <p>Rules for routing and limits are written in gateway.yaml, those of stages in pipelines.</p>
            ) : (
              <p>Try another word, or show those that ship with the program.</p>
            )}
          </EmptyState>
        </Card>
      )}
      {rule_kinds.map(({ kind, title }) => {
        const of_kind = shown.filter((rule) => rule.kind === kind);
        return (
          of_kind.length > 0 && (
            <Card key={kind} title={title}>
              <ol className="config-rules">
                {of_kind.map((rule, i) => (
                  <RuleItem
                    // biome-ignore lint/suspicious/noArrayIndexKey: several limits of one entry share their name.
                    key={`${ruleKey(rule)} ${i}`}
                    rule={rule}
                    lines={texts.get(rule.file) ?? null}
                    is_asked={asked !== undefined && isAsked(rule, asked)}
                  />
                ))}
              </ol>
            </Card>
          )
        );
      })}
    </div>
  );
}

/** By its whole name, or by that alone: other pages know a rule by its name. */
function isAsked(rule: Rule, asked: string): boolean {
  return ruleKey(rule) === asked || rule.name === asked;
}

function RuleItem({
  rule,
  lines,
  is_asked,
}: {
  readonly rule: Rule;
  readonly lines: readonly string[] | null;
  readonly is_asked: boolean;
}) {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (is_asked) item.current?.scrollIntoView({ block: 'center' });
  }, [is_asked]);
  return (
    <li ref={item} className={is_asked ? 'config-rule asked' : 'config-rule'} aria-current={is_asked || undefined}>
      <RuleWords rule={rule} />
      <RuleText rule={rule} lines={lines} />
    </li>
  );
}

/** A rule in words. */
export function RuleWords({ rule }: { readonly rule: Rule }) {
  const { name, mode, text, effect, file, line } = rule;
  return (
    <div className="config-words">
      <h3>
        <Here to={{ rule: ruleKey(rule) }} title="A link to this rule">
          {name}
        </Here>
        {mode === 'shadow' && <Badge tone="info">Shadow: only recorded</Badge>}
      </h3>
      <p>
        {text === 'otherwise' || text === 'always' ? `${capital(text)} ` : ''}
        {effect}
        {text !== 'otherwise' && text !== 'always' && (
          <>
            {' '}
            <span className="soft">when</span> {text}
          </>
        )}
      </p>
      <p className="small">
        <Place file={file} line={line} />
      </p>
    </div>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What is written for a rule. */
export function RuleText({ rule, lines }: { readonly rule: Rule; readonly lines: readonly string[] | null }) {
  const { name, first_line, last_line } = rule;
  if (lines === null) return <p className="soft small">The text of this file is not kept.</p>;
  return <YamlLines label={`What is written for ${name}`} lines={lines} from={first_line} to={last_line} />;
}
