-- Creates a schema, a role that migrates it and a role that runs gateways. Run it in the database of the gateway, as a superuser
-- or a role with CREATEROLE; it is idempotent. Then set both passwords, run `appscli migrate` as gateway_owner, and start gateways
-- as gateway_run.

do $$ begin
  if to_regrole('gateway_owner') is null then create role gateway_owner login; end if;
  if to_regrole('gateway_run') is null then create role gateway_run login; end if;
end $$;

-- Without superuser rights, the statements below act as the owner.
grant gateway_owner to current_user;

create schema if not exists gateway authorization gateway_owner;
grant usage on schema gateway to gateway_run;
-- Functions of the owner resolve names in this schema. In the schema public of an old database every role may create objects.
revoke create on schema gateway from public;

-- Both roles find the tables without a schema name.
alter role gateway_owner set search_path = gateway;
alter role gateway_run set search_path = gateway;

-- Objects of later migrations. `appscli migrate` revokes privileges that a gateway does not need: update and delete on the
-- ledger, the audit log and the log of administrative changes.
alter default privileges for role gateway_owner in schema gateway
  grant select, insert, update, delete on tables to gateway_run;
alter default privileges for role gateway_owner in schema gateway grant usage on sequences to gateway_run;
alter default privileges for role gateway_owner in schema gateway grant execute on functions to gateway_run;

-- Existing objects.
grant select, insert, update, delete on all tables in schema gateway to gateway_run;
grant usage on all sequences in schema gateway to gateway_run;
grant execute on all functions in schema gateway to gateway_run;

-- Revokes again what earlier migrations revoked.
do $$ begin
  if to_regprocedure('gateway.close_tables()') is not null then
    set local search_path = gateway;
    perform close_tables();
  end if;
end $$;

revoke gateway_owner from current_user;
