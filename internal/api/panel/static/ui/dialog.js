// Dialogs lie over the page; the page below them does not change.
import { signal } from '../vendor/signals.js'
import { useEffect, useId, useRef, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { Field, Form, useAct } from './form.js'

/** @param {{title: string, onClose?: () => void, children: any}} p without onClose it cannot be left */
export function Dialog({ title, onClose, children }) {
  const id = useId()
  const box = useRef(/** @type {HTMLDialogElement|null} */ (null))
  useEffect(() => {
    const d = /** @type {HTMLDialogElement} */ (box.current)
    const before = /** @type {HTMLElement|null} */ (document.activeElement)
    d.showModal()
    return () => {
      d.close()
      before?.focus?.()
    }
  }, [])
  const cancel = (/** @type {Event} */ e) => {
    e.preventDefault()
    onClose?.()
  }
  const closed = () => { // by the browser: it lets an Escape be held back once, not twice
    if (!box.current) return
    if (onClose) onClose()
    else box.current.showModal()
  }
  return html`<dialog ref=${box} aria-labelledby=${id} onCancel=${cancel} onClose=${closed} closedby=${onClose ? undefined : 'none'}>
    <article>
      <header><h2 id=${id}>${title}</h2>${onClose && html`<button type="button" class="close" aria-label="Close" onClick=${onClose}>✕</button>`}</header>
      ${children}
    </article>
  </dialog>`
}

/**
 * @typedef {object} Question
 * @property {string} title
 * @property {any} text names what goes
 * @property {string} [reason] the label of a field for the reason
 * @property {(reason: string) => Promise<any>} act
 */

/** @type {import('../vendor/signals.js').Signal<Question|null>} */
const question = signal(null)

let asked = 0

/** Asks before an act that cannot be undone. @param {Question} q */
export function ask(q) {
  asked++
  question.value = q
}

/** Where questions appear. */
export function Questions() {
  const q = question.value
  return q && html`<${Confirmation} key=${asked} ...${q} />`
}

/** @param {Question} q */
function Confirmation(q) {
  const [reason, setReason] = useState('')
  const close = () => { question.value = null }
  const doing = useAct(async () => {
    await q.act(reason)
    close()
  })
  return html`<${Dialog} title=${q.title} onClose=${close}>
    <${Form} act=${doing} submit="Confirm" danger more=${html`<button type="button" class="secondary" onClick=${close}>Keep</button>`}>
      <div class="prose">${q.text}</div>
      ${q.reason && html`<${Field} label=${q.reason} value=${reason} onChange=${setReason} />`}
    </${Form}>
  </${Dialog}>`
}
