// Values over time. The picture is for the eye; the same numbers stand in a table for everybody else.
import uPlot from '../vendor/uplot.js'
import { useEffect, useRef } from '../vendor/hooks.js'
import { html } from '../html.js'
import { compact, dateTime, number } from '../format.js'
import { Empty } from './parts.js'

const colours = ['#3b6fd4', '#c8811a', '#2f9462', '#8a56c9', '#c2475c', '#2f97a8', '#8b7a2b', '#6b7280', '#d46ab0', '#5b8c2a']

/**
 * @typedef {{at: string, value: number, group?: string|null}} Point
 * @param {{points: Point[], label: string, unit?: (v: number) => string, name?: (group: string) => string}} p name: of a group, where there are groups
 */
export function Chart({ points, label, unit = compact, name }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null))
  const drawn = useRef(/** @type {any} */ (null))
  const { times, series, others } = columnsOf(points)
  const names = series.map(([g]) => (g === rest ? 'others' : !name && g === '' ? label : name?.(g) || g || 'none'))
  const values = [times, ...series.map(([, v]) => v)]
  const now = useRef({ values, unit })
  now.current = { values, unit }
  useEffect(() => { // what is drawn stays while its numbers change
    const at = /** @type {HTMLElement} */ (box.current)
    if (!at) return
    const say = (/** @type {number} */ v) => now.current.unit(v)
    const draw = () => {
      const ink = getComputedStyle(document.body).color
      const line = getComputedStyle(document.documentElement).getPropertyValue('--line').trim()
      const whole = (/** @type {number[]} */ v) => v.every((n) => n === null || Number.isInteger(n))
      const incrs = () => (now.current.values.slice(1).every(whole) ? steps.filter((n) => n >= 1) : steps)
      const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
      drawn.current = new uPlot({
        width: at.clientWidth || 300, height: 210, cursor: { y: false },
        axes: [axis, { ...axis, size: 62, incrs, values: (/** @type {any} */ _, /** @type {number[]} */ vs) => vs.map(say) }],
        scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ _low, /** @type {number} */ high) => [0, high > 0 ? high * 1.08 : 1] } },
        series: [{ label: 'Time' }, ...names.map((n, i) => ({
          label: n, stroke: colours[i % colours.length], width: 2, fill: names.length === 1 ? colours[0] + '22' : undefined,
          points: { show: (/** @type {any} */ u) => u.data[0].length < 3 }, value: (/** @type {any} */ _, /** @type {number|null} */ v) => (v === null ? '–' : say(v)),
        }))],
      }, /** @type {any} */ (now.current.values), at)
    }
    draw()
    const redraw = () => { drawn.current.destroy(); draw() }
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', redraw)
    let width = at.clientWidth
    const sized = new ResizeObserver(() => {
      if (at.clientWidth === width) return
      width = at.clientWidth
      drawn.current.setSize({ width, height: 210 })
    })
    sized.observe(at)
    return () => {
      dark.removeEventListener('change', redraw)
      sized.disconnect()
      drawn.current.destroy()
    }
  }, [names.join('\n'), times.length > 0])
  useEffect(() => drawn.current?.setData(values), [JSON.stringify(values)])
  if (times.length === 0) return html`<${Empty}>There is no data in this time.</${Empty}>`
  return html`<div class="chart" ref=${box} role="img" aria-label="${label} over time; the table below has the numbers"></div>
    ${others > 0 && html`<p class="small">The ${series.length - 1} largest, and the other ${number(others)} together.</p>`}
    <details><summary>${label} as a table</summary><div class="table" tabindex="0" role="region" aria-label="${label} as a table"><table>
      <thead><tr><th scope="col">Time</th>${names.map((n) => html`<th scope="col" class="num">${n}</th>`)}</tr></thead>
      <tbody>${times.map((t, i) => (series.some(([, v]) => v[i])) && html`<tr><td>${dateTime(t * 1000)}</td>${series.map(([, v]) => html`<td class="num">${number(v[i])}</td>`)}</tr>`)}</tbody>
    </table></div></details>`
}

/** Possible distances between two lines of a chart; those of counts are whole. */
const steps = Array.from({ length: 20 }, (_, i) => i - 4).flatMap((n) => [1, 2, 5].map((m) => Number(`${m}e${n}`)))

const most = 10 // series that can be told apart
const rest = '\u0000rest'

/** @param {Point[]} points @returns {{times: number[], series: Array<[string, number[]]>, others: number}} others: how many are drawn as one */
function columnsOf(points) {
  const times = [...new Set(points.map((p) => new Date(p.at).getTime() / 1000))].sort((a, b) => a - b)
  const place = new Map(times.map((t, i) => [t, i]))
  /** @type {Map<string, number[]>} */
  const groups = new Map()
  for (const p of points) {
    const g = p.group ?? ''
    if (!groups.has(g)) groups.set(g, times.map(() => 0))
    const values = /** @type {number[]} */ (groups.get(g))
    values[/** @type {number} */ (place.get(new Date(p.at).getTime() / 1000))] += p.value
  }
  const series = [...groups].sort((a, b) => sum(b[1]) - sum(a[1]))
  if (series.length <= most) return { times, series, others: 0 }
  const others = series.splice(most - 1)
  series.push([rest, times.map((_, i) => sum(others.map(([, v]) => v[i])))])
  return { times, series, others: others.length }
}

const sum = (/** @type {number[]} */ v) => v.reduce((a, b) => a + b, 0)
