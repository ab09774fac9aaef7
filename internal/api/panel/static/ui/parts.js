// The small things that every page is made of.
import { useEffect, useErrorBoundary, useRef, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { dateTime, duration, number, pretty, utc, words } from '../format.js'
import { gone } from '../live.js'
import { me, may } from '../session.js'

/** A time in the viewer's zone, with UTC when one points at it or comes to it by keyboard. @param {{at: string|null|undefined}} p */
export function Time({ at }) {
  if (!at) return html`<span class="none">–</span>`
  return html`<time datetime=${at} title=${utc(at)} tabindex="0">${dateTime(at)}</time>`
}

/** How long ago or how far ahead a time is; it moves by itself. @param {{at: string}} p */
export function Relative({ at }) {
  const [, again] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => again((n) => n + 1), 1000)
    return () => clearInterval(timer)
  }, [])
  const s = Math.round((new Date(at).getTime() - Date.now()) / 1000)
  return html`<time datetime=${at} title=${utc(at)} tabindex="0">${relative(s)}</time>`
}

const ago = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

/** @param {number} s */
function relative(s) {
  const size = Math.abs(s)
  if (size < 60) return ago.format(s, 'second')
  if (size < 3600) return ago.format(Math.trunc(s / 60), 'minute')
  if (size < 86400 || (s > 0 && s <= 3 * 86400)) return ago.format(Math.trunc(s / 3600), 'hour') // of 72 h, days would hide one
  return ago.format(Math.trunc(s / 86400), 'day')
}

/** A button that copies a text. @param {{text: string, label?: string, shown?: string}} p */
export function Copy({ text, label = 'Copy', shown }) {
  const [done, setDone] = useState(false)
  const copy = async () => {
    await copyText(text)
    setDone(true)
    setTimeout(() => setDone(false), 1500)
  }
  return html`<button type="button" class="copy ${shown ? 'wide' : ''}" aria-label=${label} title=${label} onClick=${copy}>
    ${shown}<span class="icon ${done ? 'done' : ''}" aria-hidden="true"></span><span class="unseen" role="status">${done ? 'copied' : ''}</span>
  </button>`
}

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text)
  } catch { // pages that are not served over https may not
    const area = document.createElement('textarea')
    area.value = text
    const holder = document.querySelector('dialog[open]') ?? document.body
    holder.append(area)
    area.select()
    document.execCommand('copy')
    area.remove()
  }
}

/** An id with its copy button. @param {{id: string|null|undefined, href?: string, name?: string}} p */
export function Id({ id, href, name }) {
  if (!id) return html`<span class="none">–</span>`
  const shown = name || html`<code>${id}</code>`
  return html`<span class="id">${href ? html`<a href=${href}>${shown}</a>` : shown}<${Copy} text=${id} label="Copy id ${id}" /></span>`
}

/** @type {Record<string, string>} */
const tones = {
  completed: 'good', ready: 'good', delivered: 'good', published: 'good', finished: 'good', ok: 'good',
  failed: 'bad', timed_out: 'bad', rejected: 'bad', error: 'bad',
  awaiting_input: 'warn', pending: 'warn', rebuilding: 'warn', draft: 'warn',
  running: 'busy', queued: 'busy', processing: 'busy', started: 'busy',
}

/** A status: a word, with a colour that adds nothing to the word. @param {{of: string|null|undefined}} p */
export function Status({ of }) {
  return html`<span class="status ${tones[of ?? ''] ?? 'quiet'}">${words(of) || '–'}</span>`
}

/** Why something failed: in place, with the id under which the service's log knows it. @param {{error: any, retry?: () => void}} p */
export function Problem({ error, retry }) {
  if (!error) return null
  const errors = error.body?.errors ?? []
  const said = errors.length > 0 && error.message === errors.map((/** @type {any} */ e) => `${e.location}: ${e.message}`).join('; ')
  return html`<div class="problem" role="alert">
    ${!said && html`<p>${error.message}</p>`}
    ${errors.length > 0 && html`<ul>${errors.map((/** @type {any} */ e) =>
      html`<li><code>${e.location.replace(/^body\./, '')}</code> ${e.message}</li>`)}</ul>`}
    ${error.retryAfter > 0 && html`<p>Try again in ${duration(1000 * error.retryAfter)}.</p>`}
    ${error.requestId && html`<p class="small">Request <code>${error.requestId}</code> <${Copy} text=${error.requestId} label="Copy request id" /></p>`}
    ${retry && html`<button type="button" class="secondary" onClick=${retry}>Try again</button>`}
  </div>`
}

/**
 * Shows the state of a request for data: its failure, its wait, or the data; and no data when it has gone.
 * @param {{of: {data: any, error: any, renew: () => any}, children?: any}} p
 */
export function Await({ of, children }) {
  if (of.error && (of.data === null || gone(of.error))) return html`<${Problem} error=${of.error} retry=${of.renew} />`
  if (of.data === null) return html`<${Loading} />`
  return html`<${Stale} of=${of} />${typeof children === 'function' ? children(of.data) : children}`
}

/** Shows a note where the data is not of now. @param {{of: {error: any, renew: () => any}, retry?: boolean}} p retry: whether the button for that is here */
export function Stale({ of: { error, renew }, retry = true }) {
  return error && html`<p class="stale" role="status">Not up to date: ${error.message} ${error.requestId && html`Request <code>${error.requestId}</code> `}
    ${retry && html`<button type="button" class="link" onClick=${renew}>Try again</button>`}</p>`
}

export function Loading() {
  return html`<p class="loading" role="status" aria-busy="true">Loading…</p>`
}

/** @param {{children: any}} p */
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`
}

/** Content for keys of a level, or a note with the level that it needs. @param {{level: import('../session.js').Level, to?: string, children?: any}} p */
export function Needs({ level, to = 'This', children }) {
  if (me.value === null) return html`<${Loading} />`
  if (may(level)) return children
  return html`<p class="needs">${to} needs a key of level <strong>${level}</strong>; yours has <strong>${me.value.level}</strong>.</p>`
}

/** Text and value pairs. @param {{rows: Array<[string, any]|false|null|undefined>}} p */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(Boolean).map((row) => {
    const [name, value] = /** @type {[string, any]} */ (row)
    return html`<div><dt>${name}</dt><dd>${value === null || value === undefined || value === '' ? html`<span class="none">–</span>` : value}</dd></div>`
  })}</dl>`
}

/** JSON, as it is. @param {{value: any, label?: string}} p */
export function Json({ value, label = 'Raw JSON' }) {
  const [open, setOpen] = useState(false)
  const text = open ? pretty(value) : ''
  return html`<details class="json" onToggle=${(/** @type {any} */ e) => setOpen(e.target.open)}>
    <summary>${label}</summary>
    ${open && html`<${Copy} text=${text} label="Copy ${label}" /><${Plain} text=${text} code=${label} />`}
  </details>`
}

/**
 * A text of others as it is. Browsers take long for very many lines, so the beginning of a long text is shown, and more
 * of it on request.
 * @param {{text: string, code?: string}} p code: the name of the code, where it is code
 */
export function Plain({ text = '', code }) {
  const [most, setMost] = useState(20_000)
  const shown = text.slice(0, most)
  return html`${code ? html`<pre tabindex="0" role="region" aria-label=${code}>${shown}</pre>` : html`<div class="prose pre">${shown}</div>`}
    ${text.length > most && html`<p class="small">These are the first ${number(most)} of ${number(text.length)} characters.${' '}
      <button type="button" class="link" onClick=${() => setMost(10 * most)}>Show more</button></p>`}`
}

/** A part of a page. Where it breaks, the rest of the page stays. @param {{children?: any}} p */
export function Part({ children }) {
  const [error, again] = useErrorBoundary((e) => console.error(e))
  return error ? html`<${Problem} error=${{ message: `This part cannot be shown: ${error.message}` }} retry=${again} />` : children
}

/** A page: its heading, its actions, and its place in the panel. @param {{title: any, back?: [string, string], actions?: any, children: any}} p */
export function Page({ title, back, actions, children }) {
  const h = useRef(/** @type {HTMLElement|null} */ (null))
  useEffect(() => {
    document.title = `${h.current?.textContent} · Agent Platform`
  }, [title])
  return html`
    ${back && html`<p class="back"><a href=${back[1]} aria-label="Back to ${back[0]}"><span aria-hidden="true">← </span>${back[0]}</a></p>`}
    <header class="page"><h1 ref=${h} tabindex="-1">${title}</h1>${actions && html`<div class="actions">${actions}</div>`}</header>
    ${children}`
}

/** @param {{title: any, actions?: any, children: any, class?: string}} p */
export function Card({ title, actions, children, class: kind = '' }) {
  return html`<section class="card ${kind}">
    ${title && html`<header><h2>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</header>`}
    <${Part}>${children}</${Part}>
  </section>`
}
