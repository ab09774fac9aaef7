// The present state of the organization, and the work that needs a user.
import { html } from '../html.js'
import { useMemo } from '../vendor/hooks.js'
import { slowly, useLive } from '../live.js'
import { count, isoDay, number, zone } from '../format.js'
import { may, me } from '../session.js'
import { to } from '../router.js'
import { Chart } from '../ui/chart.js'
import { useAgents } from '../ui/names.js'
import { RunName } from '../ui/opening.js'
import { Await, Card, Empty, Loading, Page, Problem, Relative, Status, Time } from '../ui/parts.js'

export function Overview() {
  if (me.value === null) return html`<${Page} title="Overview"><${Loading} /></${Page}>`
  return html`<${Page} title="Overview">
    ${!may('admin') && html`<p class="notice">These are your own runs, and what you may decide. Under Runs and Chat are also those of others with agents that you may use.
      A key of level <strong>admin</strong> shows the runs of everybody, runs and tokens over time, and what needs attention.</p>`}
    <${Figures} />
    ${may('admin') && html`<div class="grid-2"><${OverTime} metric="runs" label="Runs" /><${OverTime} metric="tokens" label="Tokens" /></div>`}
    <div class="grid-2"><${Waiting} />${may('admin') && html`<${Attention} />`}</div>
    <${Recent} />
  </${Page}>`
}

/** One's own runs, or of all where one may see those. */
const whose = () => (may('admin') ? {} : { user_id: me.value?.user.user_id })

function Figures() {
  const day = useMemo(() => new Date(Math.floor(Date.now() / 60e3) * 60e3 - 86400e3).toISOString(), [])
  const activity = useLive(may('admin') ? '/organization/activity' : '/me')
  const inbox = useLive('/interrupts', { limit: 6 })
  const failed = useLive(may('admin') ? '/analytics/summary' : '/analytics/me', { from: day }, slowly)
  const a = activity.data
  const running = a && (a.running !== undefined ? a.running + a.queued : a.activity.active_runs_of_user)
  const limit = a && (a.running !== undefined ? a.limit : a.limits.active_runs_of_user)
  const waiting = inbox.data && (inbox.data.waiting ?? inbox.data.interrupts.length)
  return html`<div class="figures">
    <${Figure} of=${activity} value=${number(running)} text=${'active now' + (limit ? `, of at most ${number(limit)}` : '')} href=${to(['runs'], { status: 'running,queued' })} />
    <${Figure} of=${inbox} value=${number(waiting)} text="waiting for people" href=${to(['inbox'])} />
    <${Figure} of=${failed} value=${number(failed.data?.errors)} text="failures of the last day" href=${to(['runs'], { status: 'failed,timed_out', created_after: day, ...whose() })} />
  </div>`
}

/** @param {{of: any, value: any, text: string, href: string}} p */
function Figure({ of, value, text, href }) {
  return html`<a class="figure" href=${href}><b>${of.data ? value : of.error ? '–' : '…'}</b> <span>${text}</span>${of.error && html` <small>${of.error.message}${of.error.requestId && ` Request ${of.error.requestId}`}</small>`}</a>`
}

/** @param {{metric: string, label: string}} p */
function OverTime({ metric, label }) {
  const from = useMemo(() => isoDay(Date.now() - 13 * 86400e3), [])
  const query = { interval: 'day', from, timezone: zone(from) }
  const one = useLive('/analytics/timeseries', { ...query, metric: metric === 'tokens' ? 'input_tokens' : metric }, slowly)
  const two = useLive(metric === 'tokens' ? '/analytics/timeseries' : null, { ...query, metric: 'output_tokens' }, slowly)
  const named = (/** @type {any} */ d, /** @type {string} */ group) => (d?.points ?? []).map((/** @type {any} */ p) => ({ ...p, group }))
  const points = metric === 'tokens' ? [...named(one.data, 'input'), ...named(two.data, 'output')] : one.data?.points ?? []
  return html`<${Card} title="${label}, last 14 days"><${Await} of=${one}>${() => html`<${Chart} points=${points} label=${label} name=${metric === 'tokens' ? (/** @type {string} */ g) => g : undefined} />`}</${Await}></${Card}>`
}

function Waiting() {
  const inbox = useLive('/interrupts', { limit: 6 })
  const agents = useAgents()
  return html`<${Card} title="Waiting for people"><${Await} of=${inbox}>${() => {
    /** @type {any[]} */
    const rows = inbox.data.interrupts
    if (rows.length === 0) return html`<${Empty}>No run waits for people.</${Empty}>`
    return html`<ul>${rows.map((i) => html`<li key=${i.id}><a href=${to(['inbox'])}>${i.prompt}</a> · ${i.agent_name || agents.of(i.agent_id)} · for ${i.asked_by.name || i.asked_by.user_id}${i.expires_at && html` · ends <${Relative} at=${i.expires_at} />`}</li>`)}</ul>
      ${inbox.data.next_cursor && html`<p><a href=${to(['inbox'])}>All that wait</a></p>`}`
  }}</${Await}></${Card}>`
}

/** Problems that a user should look into: a line for each, nothing where all is well. */
function Attention() {
  const deliveries = useLive('/webhooks/deliveries', { state: 'failed', limit: 100 }, slowly)
  const documents = useLive('/documents', { status: 'failed', limit: 100 }, slowly)
  const budgets = useLive('/budgets', { min_used: 0.8, limit: 100 }, slowly)
  const activity = useLive('/organization/activity')
  const many = (/** @type {any} */ d, /** @type {string} */ list) => (d ? d[list].length : 0)
  const more = (/** @type {any} */ d) => (d?.next_cursor ? ' or more' : '')
  const capped = (activity.data?.users ?? []).filter((/** @type {any} */ u) => u.limit > 0 && u.active >= u.limit)
  const full = activity.data?.limit > 0 && activity.data.running + activity.data.queued >= activity.data.limit
  const lines = [
    many(deliveries.data, 'deliveries') > 0 && html`<a href=${to(['webhooks'], { state: 'failed' })}>${count(deliveries.data.deliveries.length, 'webhook delivery', 'webhook deliveries')}${more(deliveries.data)} failed permanently</a>`,
    many(documents.data, 'documents') > 0 && html`<a href=${to(['knowledge'], { status: 'failed' })}>${count(documents.data.documents.length, 'document')}${more(documents.data)} failed</a>`,
    ...(budgets.data?.budgets ?? []).map((/** @type {any} */ b) => html`<span>The budget of ${b.kind.replace('_', ' ')} <strong>${b.name ?? b.id}</strong> is used to ${Math.round(b.used * 100)} % (until <${Time} at=${b.ends_at} />)</span>`),
    full && html`<span>The organization is at its limit of active runs (${number(activity.data.limit)})</span>`,
    ...capped.map((/** @type {any} */ u) => html`<a href=${to(['users', u.user_id])}>A user is at the limit of active runs (${number(u.limit)})</a>`),
  ].filter(Boolean)
  const failed = [deliveries, documents, budgets, activity].find((l) => l.error && !l.data)
  return html`<${Card} title="Needs attention">
    ${failed && html`<${Problem} error=${failed.error} retry=${failed.renew} />`}
    ${lines.length > 0 ? html`<ul>${lines.map((l) => html`<li>${l}</li>`)}</ul>` : !failed && html`<${Empty}>Nothing needs attention.</${Empty}>`}
  </${Card}>`
}

function Recent() {
  const runs = useLive('/runs', { limit: 10, ...whose() })
  const agents = useAgents()
  return html`<${Card} title=${may('admin') ? 'Latest runs' : 'Your latest runs'}><${Await} of=${runs}>${() => {
    /** @type {any[]} */
    const rows = runs.data.runs.filter((/** @type {any} */ r) => may('admin') || r.user_id === me.value?.user.user_id)
    if (rows.length === 0) return html`<${Empty}>There are no runs yet. <a href=${to(['chat'])}>Chat</a> starts one.</${Empty}>`
    return html`<div class="table" tabindex="0" role="region" aria-label="Latest runs"><table><thead><tr><th scope="col">Run</th><th scope="col">Status</th><th scope="col">Created</th></tr></thead>
      <tbody>${rows.map((r) => html`<tr key=${r.run_id}><td><${RunName} of=${r} agent=${agents.of(r.agent_id) || r.agent_id} /></td><td><${Status} of=${r.status} /></td><td><${Time} at=${r.created_at} /></td></tr>`)}</tbody></table></div>`
  }}</${Await}></${Card}>`
}

