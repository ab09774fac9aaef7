// Edits an object that others may change meanwhile. Typed text stays when new data comes; untouched fields show the new
// data. A save sends only the typed values, and is refused where another user was quicker.
import { useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { patch } from '../api.js'
import { Form, numberOrNull, useAct } from './form.js'

const same = (/** @type {any} */ a, /** @type {any} */ b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null)

/**
 * @typedef {object} Edit
 * @property {Record<string, any>} draft
 * @property {(name: string) => {name: string, value: any, onChange: (v: any) => void, error: any}} bind a member to a field
 * @property {(name: string, member?: string) => any} number the same of a number
 * @property {any} act
 * @property {any} notice members that both others and this user have changed
 * @property {boolean} saved
 */

/**
 * @param {{data: any, etag?: () => string, renew: () => any}} of the edited object, live
 * @param {string} path to where it is saved
 * @param {(data: any) => Record<string, any>} formOf its members, as the form has them
 * @param {(changed: Record<string, any>, draft: Record<string, any>, button: string) => any} [bodyOf] the body for the API, of the members that differ; null: nothing
 * @returns {Edit}
 */
export function useEdit(of, path, formOf, bodyOf = (changed) => changed) {
  const [mine, setMine] = useState(/** @type {Record<string, {value: any, was: any}>} */ ({}))
  const [saved, setSaved] = useState(false)
  const theirs = formOf(of.data)
  const names = Object.keys(mine)
  const draft = { ...theirs, ...Object.fromEntries(names.map((n) => [n, mine[n].value])) }
  const differ = names.filter((n) => !same(mine[n].value, theirs[n]))
  const act = useAct(async (/** @type {string} */ button) => {
    const body = bodyOf(Object.fromEntries(differ.map((n) => [n, draft[n]])), draft, button)
    if (body && Object.keys(body).length > 0) {
      try {
        await patch(path, body, of.etag?.())
      } finally {
        await of.renew() // also when it was refused: the next try begins at what there is now
      }
    }
    setMine((now) => Object.fromEntries(Object.entries(now).filter(([n, m]) => m.value !== mine[n]?.value)))
    setSaved(true)
  })
  /** @param {string} name */
  const bind = (name) => ({
    name, value: draft[name], error: act.error,
    onChange: (/** @type {any} */ value) => {
      setSaved(false)
      setMine((m) => ({ ...m, [name]: { value, was: name in m ? m[name].was : theirs[name] } }))
    },
  })
  const both = differ.filter((n) => !same(mine[n].was, theirs[n]))
  const notice = both.length > 0 && html`<div class="notice" role="status"><p>Another user has changed ${both.map((n) => html`<code>${n}</code> `)} in the meantime. Your input is kept, and replaces theirs when you save.
    <button type="button" class="link" onClick=${() => setMine((m) => Object.fromEntries(Object.entries(m).filter(([n]) => !both.includes(n))))}>Take theirs</button></p></div>`
  return {
    draft, bind, act, notice, saved,
    number: (name, member = name) => ({ ...bind(name), name: member, type: 'number', onChange: (/** @type {string} */ v) => bind(name).onChange(numberOrNull(v)) }),
  }
}

/** @param {{edit: Edit, children: any, more?: any, class?: string, label?: string}} p */
export function EditForm({ edit, children, more, class: kind = '', label }) {
  return html`<${Form} act=${edit.act} submit="Save" class="edit ${kind}" label=${label}
    more=${html`${more}${edit.saved && html`<span class="small" role="status">Saved.</span>`}`}>${edit.notice}${children}</${Form}>`
}
