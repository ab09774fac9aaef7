// Runs and tokens of a user or an object in the last 30 days.
import { html } from '../html.js'
import { slowly, useLive } from '../live.js'
import { may } from '../session.js'
import { count, isoDay, number, zone } from '../format.js'
import { useMemo } from '../vendor/hooks.js'
import { Chart } from './chart.js'
import { Await, Card, Needs } from './parts.js'

/** @param {{title: string, query: Record<string, any>}} p */
export function Usage({ title, query }) {
  const from = useMemo(() => isoDay(Date.now() - 29 * 86400e3), [])
  const series = useLive(may('admin') ? '/analytics/timeseries' : null, { metric: 'runs', interval: 'day', from, timezone: zone(from), ...query }, slowly)
  const summary = useLive(may('admin') ? '/analytics/summary' : null, { from, timezone: zone(from), ...query }, slowly)
  const s = summary.data
  return html`<${Card} title="${title}, last 30 days"><${Needs} level="admin" to="Reading usage">
    ${s && html`<p>${count(s.runs.total, 'run')}, ${number(s.errors)} failed; ${count(s.tokens.input + s.tokens.output, 'token')}.</p>`}
    <${Await} of=${series}>${() => html`<${Chart} points=${series.data.points} label="Runs" />`}</${Await}>
  </${Needs}></${Card}>`
}
