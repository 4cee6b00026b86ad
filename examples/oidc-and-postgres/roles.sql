-- A schema of its own, a role that migrates it and one that gateways run as. Run it in the database of the gateway, as a
-- superuser or as who may create roles; running it again changes nothing. Then give both a password, run `appscli migrate` as
-- gateway_owner, and start gateways as gateway_run.

do $$ begin
  if to_regrole('gateway_owner') is null then create role gateway_owner login; end if;
  if to_regrole('gateway_run') is null then create role gateway_run login; end if;
end $$;

-- Who is no superuser acts for the owner below.
grant gateway_owner to current_user;

create schema if not exists gateway authorization gateway_owner;
grant usage on schema gateway to gateway_run;
-- Functions of the owner look for names there; the schema public of an old database lets everybody make some.
revoke create on schema gateway from public;

-- Both find the tables without naming the schema.
alter role gateway_owner set search_path = gateway;
alter role gateway_run set search_path = gateway;

-- What migrations will make. Each migration takes back what a gateway does not need: `appscli migrate` leaves it no
-- update and delete on the ledger, the audit log and the changes of administrators.
alter default privileges for role gateway_owner in schema gateway
  grant select, insert, update, delete on tables to gateway_run;
alter default privileges for role gateway_owner in schema gateway grant usage on sequences to gateway_run;
alter default privileges for role gateway_owner in schema gateway grant execute on functions to gateway_run;

-- What is there already.
grant select, insert, update, delete on all tables in schema gateway to gateway_run;
grant usage on all sequences in schema gateway to gateway_run;
grant execute on all functions in schema gateway to gateway_run;

-- What migrations have taken back stays so.
do $$ begin
  if to_regprocedure('gateway.close_tables()') is not null then
    set local search_path = gateway;
    perform close_tables();
  end if;
end $$;

revoke gateway_owner from current_user;
