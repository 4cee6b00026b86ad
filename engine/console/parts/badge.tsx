import type { ReactNode } from 'react';
import { Icon, type IconName } from './icon.tsx';

/** What a state means for whoever looks. */
export type Tone = 'good' | 'warn' | 'alarm' | 'info' | 'plain';

const ICONS: Readonly<Record<Tone, IconName | undefined>> = {
  good: 'check',
  warn: 'alarm',
  alarm: 'alarm',
  info: 'info',
  plain: undefined,
};

/** A state in a word or two. Its colour says nothing that its word and drawing do not. */
export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  const icon = ICONS[tone];
  return (
    <span className={`badge ${tone}`}>
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </span>
  );
}
