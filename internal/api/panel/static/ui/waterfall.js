// A run in time: its waits, and each call of a model or tool, with its length and tokens.
import { html } from '../html.js'
import { cut, dateTime, duration, number, revealed, utc } from '../format.js'
import { Empty, Json } from './parts.js'

/** @typedef {{name: any, kind: string, from: number, to: number, tokens?: number, note?: string, more?: any}} Bar */

/** @param {{run: any, steps: any[], interrupts: any[]}} p */
export function Waterfall({ run, steps, interrupts }) {
  const bars = barsOf(run, steps, interrupts)
  const from = Date.parse(run.created_at)
  const to = Math.max(...bars.map((b) => b.to), from + 1)
  if (bars.length === 0) return html`<${Empty}>The run has not started.</${Empty}>`
  const ticks = ticksOf(to - from)
  const share = (/** @type {number} */ t) => `${(100 * (t - from)) / (to - from)}%`
  return html`<div class="table" tabindex="0" role="region" aria-label="Steps"><table class="waterfall">
    <thead><tr><th scope="col">Step</th><th scope="col" class="num">Began</th><th scope="col" class="narrow"><span class="axis">${ticks.map((t) => html`<span style=${{ left: share(from + t) }}>${t === 0 ? '0' : duration(t)}</span>`)}</span></th><th scope="col" class="num">Took</th><th scope="col" class="num">Tokens</th></tr></thead>
    <tbody>${bars.map((b, i) => html`<tr key=${i}>
      <td class="wrap">${b.name}${b.note && html` <span class="small">${b.note}</span>`}${b.more && html`<${Json} value=${b.more} label="Details of step ${i}" />`}</td>
      <td class="num"><time datetime=${new Date(b.from).toISOString()} title=${`${dateTime(b.from)} · ${utc(b.from)}`} tabindex="0">+${duration(b.from - from)}</time></td>
      <td class="bars narrow"><div class="track" aria-hidden="true">${ticks.map((t) => html`<b style=${{ left: share(from + t) }}></b>`)}<i class=${b.kind} style=${{ left: share(b.from), width: `${Math.max(0.2, (100 * (b.to - b.from)) / (to - from))}%` }}></i></div></td>
      <td class="num">${duration(b.to - b.from)}</td>
      <td class="num">${b.tokens === undefined ? '' : number(b.tokens)}</td>
    </tr>`)}</tbody></table></div>
    <ul class="legend small">${[['queue', 'queued'], ['model', 'model'], ['tool', 'tool'], ['wait', 'waits for a human']].map(([kind, text]) =>
      html`<li><span class="track" aria-hidden="true"><i class=${kind} style=${{ left: '0', width: '100%' }}></i></span>${text}</li>`)}</ul>`
}

/** Round times that part a length into at most five, from 0 on. @param {number} ms */
export function ticksOf(ms) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400].map((s) => s * 1000)]
  const step = steps.find((s) => ms / s <= 5) ?? Math.ceil(ms / 5 / 86400e3) * 86400e3
  return Array.from({ length: Math.floor(ms / step) + 1 }, (_, i) => i * step)
}

/** @param {any} run @param {any[]} steps @param {any[]} interrupts @returns {Bar[]} */
function barsOf(run, steps, interrupts) {
  const now = endOf(run)
  /** @type {Bar[]} */
  const bars = []
  const created = Date.parse(run.created_at)
  bars.push({ name: 'Queued', kind: 'queue', from: created, to: time(run.started_at, now) })
  for (const s of steps) {
    const start = Date.parse(s.started_at)
    const model = s.kind === 'model'
    bars.push({
      name: model ? 'Model call' : html`<code>${s.name}</code> <span class="small">${revealed(cut(JSON.stringify(s.arguments ?? {}), 60))}</span>`, kind: model ? 'model' : 'tool', from: start, to: time(s.finished_at, now),
      tokens: model ? s.input_tokens + s.output_tokens : undefined,
      note: [s.state, s.outcome, s.finish_reason, s.tries > 1 && `${s.tries} tries`, s.attempt > 1 && `attempt ${s.attempt}`].filter(Boolean).join(', '), more: s,
    })
  }
  for (const p of pausesOf(run, interrupts)) bars.push({ name: 'Waits for a human', kind: 'wait', ...p })
  return bars.sort((a, b) => a.from - b.from)
}

const endOf = (/** @type {any} */ run) => (run.finished_at ? Date.parse(run.finished_at) : Date.now())
const time = (/** @type {string|null|undefined} */ t, /** @type {number} */ or) => (t ? Date.parse(t) : or)

/**
 * The times when a run waited for a human, with their reasons.
 * @param {any} run @param {any[]} interrupts @returns {Array<{from: number, to: number, note: string}>}
 */
export function pausesOf(run, interrupts) {
  const pauses = new Map()
  for (const i of interrupts) {
    const p = pauses.get(i.pause) ?? { from: Infinity, to: 0, names: [] }
    p.from = Math.min(p.from, Date.parse(i.created_at))
    p.to = Math.max(p.to, time(i.decision?.at, endOf(run)))
    p.names.push(`${i.tool?.name ?? 'question'}${i.decision ? `: ${i.decision.decision}` : ''}`)
    pauses.set(i.pause, p)
  }
  if (pauses.size === 0 && run.paused_at) return [{ from: Date.parse(run.paused_at), to: endOf(run), note: '' }]
  return [...pauses.values()].map(({ from, to, names }) => ({ from, to, note: names.join(', ') }))
}
