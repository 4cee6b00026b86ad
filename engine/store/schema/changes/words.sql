-- Finding changes by the words of who made them, and of what they are about.

-- The words of a text in lower case: `user:ana@example.com per day` has `user`, `ana@example.com`, `per` and `day`.
create function words_of(p_text text) returns text[]
language sql immutable parallel safe as $$
  select array_remove(string_to_array(translate(lower(p_text), ':(),"', '     '), ' '), '')
$$;

-- What a change was made to, whose that is, and what came of it. It calls no function of ours: an index that is built finds
-- none by its bare name.
create function change_names(p_subject text, p_before jsonb, p_after jsonb) returns text
language sql immutable parallel safe as $$
  select p_subject
    || ' ' || coalesce(p_before ->> 'user', '') || ' ' || coalesce(p_after ->> 'user', '')
    || ' ' || coalesce(p_before ->> 'name', '') || ' ' || coalesce(p_after ->> 'name', '')
    || ' ' || coalesce(p_before ->> 'to', '') || ' ' || coalesce(p_after ->> 'to', '')
    || ' ' || coalesce(p_before ->> 'owner', '') || ' ' || coalesce(p_after ->> 'owner', '')
    || ' ' || coalesce(p_after ->> 'replaces', '') || ' ' || coalesce(p_after ->> 'replaced_by', '')
$$;

create index on admin_changes using gin (words_of(actor));
create index on admin_changes using gin (words_of(change_names(subject, before, after)));
create index on admin_changes (action, id);
