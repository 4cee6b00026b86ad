/** What is in the query of a page's address: texts by name. */
export type PageSearch = Readonly<Record<string, string | undefined>>;
