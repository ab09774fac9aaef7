// Numbers over time; the range and the metric are in the address.
import { useEffect } from '../vendor/hooks.js'
import { html } from '../html.js'
import { download } from '../api.js'
import { seldom, slowly, useLive } from '../live.js'
import { beginOf, compact, duration, isoDay, number, words, zone } from '../format.js'
import { may } from '../session.js'
import { place, setQuery, to } from '../router.js'
import { Chart } from '../ui/chart.js'
import { Act, Choice, Field, Late } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { useAgents, useKeys, useUsers } from '../ui/names.js'
import { Await, Card, Id, Page, Status, Time } from '../ui/parts.js'

const metrics = [['runs', 'Runs'], ['completed', 'Completed'], ['failed', 'Failed'], ['cancelled', 'Cancelled'], ['timed_out', 'Timed out'], ['errors', 'Errors'],
  ['input_tokens', 'Input tokens'], ['output_tokens', 'Output tokens'], ['active_ms', 'Active time'], ['queue_ms', 'Queue time'], ['model_calls', 'Model calls'], ['tool_calls', 'Tool calls'], ['cost', 'Cost']]
const groupings = [['', 'all together'], ['agent', 'by agent'], ['user', 'by user'], ['api_key', 'by API key'], ['model', 'by model'], ['status', 'by status']]
const ranges = [['1', 'the last day'], ['7', 'the last 7 days'], ['30', 'the last 30 days'], ['90', 'the last 90 days'], ['365', 'the last year']]

/** The day in an address, with or without a time, if it is one. @param {string|undefined} v */
const dated = (v) => (v && /^\d{4}-\d\d-\d\d/.test(v) && !Number.isNaN(Date.parse(v)) ? v : undefined)

export function Analytics() {
  const q = Object.fromEntries(place.value.query)
  const set = (/** @type {any} */ change) => setQuery({ ...q, ...change })
  const days = { from: dated(q.from) ?? isoDay(Date.now() - 29 * 86400e3), to: dated(q.to) ?? isoDay(Date.now() + 86400e3) }
  useEffect(() => { if (q.from !== days.from || q.to !== days.to) set(days) }, [q.from, q.to]) // so that the address says the same tomorrow
  const timezone = zone(days.from, days.to)
  const range = { from: beginOf(days.from, timezone), to: beginOf(days.to, timezone), timezone }
  const filters = { agent_id: q.agent_id, user_id: q.user_id, api_key_id: q.api_key_id, model: q.model }
  return html`<${Page} title="Analytics">
    ${!may('admin') && html`<p class="notice">You see your own usage. A key of level <strong>admin</strong> shows everybody's.</p>`}
    <${Filters} q=${q} set=${set} range=${days} />
    <p class="small">Whole days in ${timezone ?? 'UTC, as for all ranges over 91 days'}, from the start of the first day to the start of the last.</p>
    ${may('admin') ? html`<${Everything} q=${q} range=${range} days=${days} filters=${filters} />` : html`<${Mine} range=${range} />`}
  </${Page}>`
}

/** @param {{q: any, set: (c: any) => void, range: any}} p */
function Filters({ q, set, range }) {
  const agents = useAgents()
  const users = useUsers()
  const keys = useKeys()
  const priced = (useLive(may('admin') ? '/organization' : null, {}, seldom).data?.prices ?? []).length > 0
  const days = String(Math.round((Date.parse(range.to) - Date.parse(range.from)) / 86400e3))
  const known = ranges.some(([v]) => v === days)
  return html`<search class="filters" aria-label="Filter analytics">
    <${Field} label="Range" value=${known ? days : ''} options=${[...(known ? [] : [['', 'as below']]), ...ranges]} onChange=${(/** @type {string} */ v) => v && set({ from: isoDay(Date.now() - (Number(v) - 1) * 86400e3), to: isoDay(Date.now() + 86400e3) })} />
    <${Field} label="From" type="date" value=${range.from.slice(0, 10)} onChange=${(/** @type {string} */ v) => v && set({ from: v })} />
    <${Field} label="To" type="date" value=${range.to.slice(0, 10)} onChange=${(/** @type {string} */ v) => v && set({ to: v })} />
    ${may('admin') && html`
      <${Field} label="Metric" value=${q.metric ?? 'runs'} options=${metrics.filter(([m]) => m !== 'cost' || priced || q.metric === m)} onChange=${(/** @type {string} */ metric) => set({ metric })} />
      <${Field} label="Grouped" value=${q.group_by ?? ''} options=${groupings} onChange=${(/** @type {string} */ group_by) => set({ group_by })} />
      <${Field} label="Interval" value=${q.interval ?? 'day'} options=${[['hour', 'hour'], ['day', 'day']]} onChange=${(/** @type {string} */ interval) => set({ interval })} />
      <${Choice} label="Agent" value=${q.agent_id} of=${agents} first=${[['', 'any']]} onChange=${(/** @type {string} */ agent_id) => set({ agent_id })} />
      <${Choice} label="User" value=${q.user_id} of=${users} first=${[['', 'any']]} onChange=${(/** @type {string} */ user_id) => set({ user_id })} />
      <${Choice} label="API key" value=${q.api_key_id} of=${keys} first=${[['', 'any']]} onChange=${(/** @type {string} */ api_key_id) => set({ api_key_id })} />
      <${Late} label="Model" value=${q.model} onChange=${(/** @type {string} */ model) => set({ model })} />`}
  </search>`
}

/** @param {{q: any, range: any, days: any, filters: any}} p */
function Everything({ q, range, days, filters }) {
  const metric = q.metric ?? 'runs'
  const group = q.group_by ?? ''
  const summary = useLive('/analytics/summary', { ...range, ...filters }, slowly)
  const series = useLive('/analytics/timeseries', { ...range, ...filters, metric, interval: q.interval ?? 'day', group_by: group }, slowly)
  const agents = useAgents()
  const users = useUsers()
  const keys = useKeys()
  /** @type {Record<string, any>} */
  const names = { agent: agents.of, user: users.of, api_key: keys.of, status: words, model: (/** @type {string} */ m) => m }
  const label = metrics.find(([m]) => m === metric)?.[1] ?? metric
  return html`
    <${Await} of=${summary}>${() => html`<${Totals} of=${summary.data} />`}</${Await}>
    <${Card} title="${label} over time"><${Await} of=${series}>${() => html`<${Chart} points=${series.data.points} label=${label} name=${names[group]} unit=${metric.endsWith('_ms') ? duration : compact} />`}</${Await}></${Card}>
    <${Ledger} query=${{ from: range.from, to: range.to, ...filters }} name="usage-${days.from}-${days.to}.csv" />`
}

/** @param {{of: any}} p */
function Totals({ of: s }) {
  const figures = [
    [number(s.runs.total), 'runs'], [number(s.runs.completed), 'completed'], [number(s.runs.failed), 'failed'], [number(s.runs.cancelled), 'cancelled'], [number(s.runs.timed_out), 'timed out'],
    [compact(s.tokens.input), 'tokens in'], [compact(s.tokens.output), 'tokens out'],
    [duration(s.active_ms?.p50), `active time in the median, p95 ${duration(s.active_ms?.p95)}`], [duration(s.queue_ms?.p50), `queue time in the median, p95 ${duration(s.queue_ms?.p95)}`],
    [number(s.users), 'users'], [number(s.agents), 'agents'],
    ...(s.cost === undefined ? [] : [[`${number(s.cost)} ${s.currency ?? ''}`, 'cost']]),
  ]
  return html`<div class="figures">${figures.map(([value, text]) => html`<div class="figure"><b>${value}</b> <span>${text}</span></div>`)}</div>`
}

/** @param {{query: any, name: string}} p */
function Ledger({ query, name }) {
  const list = useList('/analytics/usage', 'entries', 'entry_id', query)
  const agents = useAgents()
  const users = useUsers()
  const columns = [
    column('Run', (e) => (e.run_id ? html`<${Id} id=${e.run_id} href=${to(['runs', e.run_id])} />` : e.kind)),
    column('Status', (e) => html`<${Status} of=${e.status} />`),
    column('Agent', (e) => agents.of(e.agent_id) || e.agent_id, 'narrow'), column('User', (e) => users.of(e.user_id) || e.user_id, 'narrow'),
    column('Model', (e) => e.model ?? '', 'narrow'),
    column('In', (e) => number(e.input_tokens), 'num narrow'), column('Out', (e) => number(e.output_tokens), 'num narrow'),
    column('Active', (e) => duration(e.active_ms), 'num narrow'),
    column('Finished', (e) => html`<${Time} at=${e.finished_at} />`, 'narrow'),
  ]
  return html`<${Card} title="Ledger" actions=${html`<${Act} label="Download CSV" act=${() => download('/analytics/usage', name, { query, headers: { Accept: 'text/csv' } })} />`}>
    <${List} of=${list} columns=${columns} label="Ledger" id="entry_id" empty="The ledger has no entries in this time." /></${Card}>`
}

/** @param {{range: any}} p */
function Mine({ range }) {
  const mine = useLive('/analytics/me', range, slowly)
  return html`<${Await} of=${mine}>${() => html`<${Totals} of=${mine.data} />`}</${Await}>`
}
