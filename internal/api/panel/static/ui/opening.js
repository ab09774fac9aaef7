// The beginning of a run's message: users know a run by it better than by its id. It does not change, so each is read
// once, and only where it is in view.
import { effect, signal } from '../vendor/signals.js'
import { useEffect, useMemo, useRef } from '../vendor/hooks.js'
import { html } from '../html.js'
import { get } from '../api.js'
import { cut, revealed } from '../format.js'
import { to } from '../router.js'
import { key, organization } from '../session.js'
import { Id } from './parts.js'

const kept = 2000 // beginnings
const atOnce = 4 // requests

/** By run; empty: it is not known. @type {Map<string, import('../vendor/signals.js').Signal<string>>} */
let known = new Map()

/** Runs whose message is still to be read. The last one that came into view is at the end. @type {string[]} */
let wanted = []
let under = 0 // way

effect(() => { // another's eyes
  void [key.value, organization.value]
  known = new Map()
  wanted = []
})

/** @param {string} runId */
function beginning(runId) {
  let text = known.get(runId)
  if (!text) {
    text = signal('')
    known.set(runId, text)
    if (known.size > kept) known.delete(/** @type {string} */ (known.keys().next().value))
  }
  return text
}

function read() {
  while (under < atOnce && wanted.length > 0) {
    const runId = /** @type {string} */ (wanted.pop())
    const text = beginning(runId)
    under++
    get(`/runs/${runId}/messages`).then((d) => {
      const said = (d.messages ?? []).find((/** @type {any} */ m) => m.role === 'user')
      if (said) text.value = cut((said.content || (said.files ?? []).map((/** @type {any} */ f) => f.name).join(', ')).replace(/\s+/g, ' ').trim(), 100)
    }, () => { wanted = [] }).finally(() => { // the list says why nothing can be read
      under--
      read()
    })
  }
}

/** How a run's message begins, once its box has been in view. @param {string} id @returns {[string, {current: HTMLElement|null}]} */
function useBeginning(id) {
  const text = useMemo(() => beginning(id), [id])
  const box = useRef(/** @type {HTMLElement|null} */ (null))
  useEffect(() => {
    if (text.value) return
    let soon = 0
    const leave = () => {
      clearTimeout(soon)
      wanted = wanted.filter((w) => w !== id)
    }
    const watch = new IntersectionObserver((seen) => {
      leave()
      if (seen[seen.length - 1].isIntersecting && !text.value) soon = window.setTimeout(() => { wanted.push(id); read() }, 150) // what only flits by is not asked for
    })
    watch.observe(/** @type {HTMLElement} */ (box.current))
    return () => {
      watch.disconnect()
      leave()
    }
  }, [id, !!text.value])
  return [/** @type {string} */ (revealed(text.value)), box]
}

/** The user's message that began a run. @param {{id: string}} p */
export function Beginning({ id }) {
  const [text, box] = useBeginning(id)
  return html`<span ref=${box} class="beginning">${text && `“${text}”`}</span>`
}

/**
 * A run in a list: how its message begins, which agent it is of, and its id.
 * @param {{of: any, agent?: string}} p
 */
export function RunName({ of: { run_id: id }, agent }) {
  const [text, box] = useBeginning(id)
  return html`<div class="run" ref=${box}>${text && html`<a class="words" href=${to(['runs', id])}>${text}</a>`}
    <span class="of ${text ? 'small' : ''}">${agent && html`<span class="agent">${agent} · </span>`}<${Id} id=${id} href=${to(['runs', id])} /></span></div>`
}
