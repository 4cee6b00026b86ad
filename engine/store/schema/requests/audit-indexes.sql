-- What lists of requests look for: all of a time, those of a person or of a token, and those that did not go well. Anything else is
-- looked for among these, a stretch of time after the other. While an index is built gateways keep their records in memory and in
-- their spools: no request waits for it.
create index on audit_log (at, id);
create index on audit_log ((record ->> 'user'), at);
create index on audit_log ((record ->> 'token_id'), at);
create index on audit_log (at) where left(record ->> 'status', 1) in ('4', '5');
