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
  const { times, series } = columnsOf(points)
  const names = series.map(([g]) => (!name && g === '' ? label : name?.(g) || g || 'none'))
  const same = JSON.stringify([points, names])
  useEffect(() => {
    const at = /** @type {HTMLElement} */ (box.current)
    if (!at || times.length === 0) return
    const draw = () => {
      const ink = getComputedStyle(document.body).color
      const line = getComputedStyle(document.documentElement).getPropertyValue('--line').trim()
      const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
      return new uPlot({
        width: at.clientWidth || 300, height: 210, cursor: { y: false },
        axes: [axis, { ...axis, size: 62, values: (/** @type {any} */ _, /** @type {number[]} */ vs) => vs.map(unit) }],
        scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ _low, /** @type {number} */ high) => [0, high > 0 ? high * 1.08 : 1] } },
        series: [{ label: 'Time' }, ...names.map((n, i) => ({
          label: n, stroke: colours[i % colours.length], width: 2, fill: names.length === 1 ? colours[0] + '22' : undefined,
          points: { show: times.length < 3 }, value: (/** @type {any} */ _, /** @type {number|null} */ v) => (v === null ? '–' : unit(v)),
        }))],
      }, /** @type {any} */ ([times, ...series.map(([, values]) => values)]), at)
    }
    let chart = draw()
    const redraw = () => { chart.destroy(); chart = draw() }
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', redraw)
    let width = at.clientWidth
    const sized = new ResizeObserver(() => {
      if (at.clientWidth === width) return
      width = at.clientWidth
      chart.setSize({ width, height: 210 })
    })
    sized.observe(at)
    return () => {
      dark.removeEventListener('change', redraw)
      sized.disconnect()
      chart.destroy()
    }
  }, [same])
  if (times.length === 0) return html`<${Empty}>There is nothing in this time.</${Empty}>`
  return html`<div class="chart" ref=${box} role="img" aria-label="${label} over time; the table below has the numbers"></div>
    <details><summary>${label} as a table</summary><div class="table" tabindex="0" role="region" aria-label="${label} as a table"><table>
      <thead><tr><th scope="col">Time</th>${names.map((n) => html`<th scope="col" class="num">${n}</th>`)}</tr></thead>
      <tbody>${times.map((t, i) => (series.some(([, v]) => v[i])) && html`<tr><td>${dateTime(t * 1000)}</td>${series.map(([, v]) => html`<td class="num">${number(v[i])}</td>`)}</tr>`)}</tbody>
    </table></div></details>`
}

/** @param {Point[]} points @returns {{times: number[], series: Array<[string, number[]]>}} */
function columnsOf(points) {
  const times = [...new Set(points.map((p) => new Date(p.at).getTime() / 1000))].sort((a, b) => a - b)
  const place = new Map(times.map((t, i) => [t, i]))
  /** @type {Map<string, number[]>} */
  const series = new Map()
  for (const p of points) {
    const g = p.group ?? ''
    if (!series.has(g)) series.set(g, times.map(() => 0))
    const values = /** @type {number[]} */ (series.get(g))
    values[/** @type {number} */ (place.get(new Date(p.at).getTime() / 1000))] += p.value
  }
  return { times, series: [...series].sort((a, b) => sum(b[1]) - sum(a[1])).slice(0, 10) }
}

const sum = (/** @type {number[]} */ v) => v.reduce((a, b) => a + b, 0)
