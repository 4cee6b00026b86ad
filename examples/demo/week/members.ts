/** A user of the week. Alice and Bob can sign in, too. */
export interface Member {
  readonly user: string;
  readonly group: 'everyone' | 'interns';
  readonly team: string;
  /** Name of the access token. */
  readonly token: string;
  /** The user agent of the client. */
  readonly client: string;
  readonly api: 'messages' | 'chat';
  readonly models: readonly string[];
  /** Work sessions per working day. */
  readonly sessions_a_day: number;
}

const LARGE = 'demo-large';
const SMALL = 'demo-small';

/** The users of the week. */
export const MEMBERS = {
  alice: {
    user: 'alice@example.com',
    group: 'everyone',
    team: 'web',
    token: 'laptop',
    client: 'coding-cli/2.1.4',
    api: 'messages',
    models: [LARGE, LARGE, SMALL],
    sessions_a_day: 3,
  },
  bob: {
    user: 'bob@example.com',
    group: 'interns',
    team: 'web',
    token: 'workstation',
    client: 'coding-cli/2.1.4',
    api: 'messages',
    models: [SMALL],
    sessions_a_day: 2,
  },
  dora: {
    user: 'dora@example.com',
    group: 'everyone',
    team: 'data',
    token: 'notebook',
    client: 'notebook/1.3.0',
    api: 'chat',
    models: [SMALL, LARGE],
    sessions_a_day: 3,
  },
  erik: {
    user: 'erik@example.com',
    group: 'everyone',
    team: 'mobile',
    token: 'editor',
    client: 'editor-plugin/0.9.2',
    api: 'messages',
    models: [LARGE],
    sessions_a_day: 2,
  },
  fay: {
    user: 'fay@example.com',
    group: 'everyone',
    team: 'data',
    token: 'laptop',
    client: 'coding-cli/2.0.9',
    api: 'messages',
    models: [LARGE, SMALL],
    sessions_a_day: 2,
  },
  gus: {
    user: 'gus@example.com',
    group: 'everyone',
    team: 'mobile',
    token: 'nightly review',
    client: 'review-agent/0.4.1',
    api: 'messages',
    models: [LARGE],
    sessions_a_day: 1,
  },
} as const satisfies Readonly<Record<string, Member>>;

/** The name of a user of the week. */
export type MemberName = keyof typeof MEMBERS;
