import type { SchemaMigration } from '../migrate.ts';

const REPEATED_SIGN_INS = `
-- Of a sign-in that was collected: when, its session, and the session's first refresh token, sealed under the device code.
alter table device_grants add column redeemed_at timestamptz, add column session_id text, add column sealed_refresh text;

-- Like poll_device_grant, which gateways of the version before call. The answer to a device that collects its session may get
-- lost: with the same device code it is given once more what it was given, unless that was used to renew by then. A later use is not the
-- device's, or somebody else has what the device got, so the session ends (RFC 6749 section 4.1.2).
create function collect_device_grant(
  p_device_code_hash bytea, p_now timestamptz, p_polled_before timestamptz, p_repeated_since timestamptz, p_session text,
  p_refresh_hash bytea, p_sealed_refresh text, p_session_expires_at timestamptz
) returns table (outcome text, session_id text, person jsonb, sealed_refresh text, ended boolean)
language plpgsql as $$
declare
  v_grant device_grants;
begin
  select g.* into v_grant from device_grants g where g.device_code_hash = p_device_code_hash for no key update;
  if found and v_grant.status = 'redeemed' and v_grant.session_id is not null then
    select s.person into person from sessions s
    where s.id = v_grant.session_id and s.revoked_at is null and v_grant.redeemed_at > p_repeated_since
      and not exists (select from refresh_tokens t where t.session_id = s.id and t.used_at is not null);
    if found then
      outcome := 'repeated';
      session_id := v_grant.session_id;
      sealed_refresh := v_grant.sealed_refresh;
    else
      outcome := 'unknown';
      session_id := v_grant.session_id;
      ended := end_session(v_grant.session_id, 'its device code was used again', 'gateway', 'sign-in', p_now);
      update device_grants g set sealed_refresh = null where g.id = v_grant.id;
    end if;
    return next;
    return;
  end if;
  select p.outcome, p.person into outcome, person
  from poll_device_grant(p_device_code_hash, p_now, p_polled_before, p_session, p_refresh_hash, p_session_expires_at) p;
  if outcome = 'signed_in' then
    update device_grants g set redeemed_at = p_now, session_id = p_session, sealed_refresh = p_sealed_refresh
    where g.id = v_grant.id;
    session_id := p_session;
    sealed_refresh := p_sealed_refresh;
    perform end_refused_sessions(p_session, p_now);
  end if;
  return next;
end $$;
`;

/** A device whose first answer got lost is given its session again. */
export const repeatedSignIns: SchemaMigration = {
  name: '0017_repeated_sign_ins',
  async up(knex) {
    await knex.raw(REPEATED_SIGN_INS);
  },
};
