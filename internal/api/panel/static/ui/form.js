// Fields with their labels, their help and the service's message about a fault.
import { useEffect, useId, useLayoutEffect, useRef, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { Problem } from './parts.js'

/**
 * Runs an act that may fail, one at a time. The typed text stays when it fails.
 * @param {(...values: any[]) => Promise<any>} act
 */
export function useAct(act) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState(/** @type {any} */ (null))
  const under = useRef(false) // way: what is asked for a second time meanwhile, by Enter or a click, is not done twice
  /** @param {any[]} values */
  const run = async (...values) => {
    if (under.current) return
    under.current = true
    setBusy(true)
    setError(null)
    try {
      return await act(...values)
    } catch (e) {
      setError(e)
      if (!(/** @type {any} */ (e).body)) console.error(e)
    } finally {
      under.current = false
      setBusy(false)
    }
  }
  return { run, busy, error, clear: () => setError(null) }
}

/** Members of a value under edit. @template {Record<string, any>} T @param {T} first */
export function useDraft(first) {
  const [draft, setDraft] = useState(first)
  /** @param {string} name */
  const bind = (name) => ({
    name, value: draft[name],
    onChange: (/** @type {any} */ v) => setDraft((/** @type {T} */ d) => ({ ...d, [name]: v })),
  })
  return { draft, setDraft, bind }
}

/**
 * @typedef {object} FieldProps
 * @property {string} label
 * @property {any} value
 * @property {(v: any) => void} onChange
 * @property {string} [name] of the member of the body, for the service's message about it
 * @property {string} [type]
 * @property {any} [help]
 * @property {any} [error] a failure
 * @property {string} [problem] the fault of the value: while there is one, the form is not sent
 * @property {boolean} [required]
 * @property {Array<[string, string]>} [options] value and text
 * @property {number} [rows]
 * @property {string} [placeholder]
 * @property {string} [autocomplete]
 * @property {number|string} [min]
 * @property {number|string} [max]
 * @property {number|string} [step]
 * @property {boolean} [disabled]
 * @property {(e: any) => void} [onKeyDown]
 */

/** A labelled field: text, number, date-time, select (with options) or area (with rows). @param {FieldProps} p */
export function Field(p) {
  const id = useId()
  const control = useRef(/** @type {any} */ (null))
  const wrong = p.problem || (p.name && p.error?.field ? p.error.field(p.name) : '')
  useLayoutEffect(() => control.current.setCustomValidity(p.problem ?? ''), [p.problem])
  const described = [p.help && `${id}-help`, wrong && `${id}-wrong`].filter(Boolean).join(' ') || undefined
  const common = {
    id, ref: control, name: p.name, required: p.required, disabled: p.disabled, 'aria-describedby': described,
    'aria-invalid': wrong ? 'true' : undefined, placeholder: p.placeholder, autocomplete: p.autocomplete ?? 'off',
    onKeyDown: p.onKeyDown,
  }
  const take = (/** @type {any} */ e) => p.onChange(e.target.value)
  let shown
  if (p.options) {
    shown = html`<select ...${common} value=${p.value ?? ''} onChange=${take}>
      ${p.options.map(([value, text]) => html`<option value=${value} selected=${value === (p.value ?? '')}>${text}</option>`)}</select>`
  } else if (p.rows) {
    shown = html`<textarea ...${common} rows=${p.rows} value=${p.value ?? ''} onInput=${take}></textarea>`
  } else {
    const typed = control.current?.value // 0.0 on the way to 0.05 stays, though its number is 0
    const value = p.type === 'number' && typed && Number(typed) === p.value ? typed : p.value ?? ''
    shown = html`<input ...${common} type=${p.type ?? 'text'} min=${p.min} max=${p.max} step=${p.step} value=${value} onInput=${take} />`
  }
  return html`<div class="field">
    <label for=${id}>${p.label}</label>
    ${shown}
    ${p.help && html`<small id="${id}-help">${p.help}</small>`}
    ${wrong && html`<small id="${id}-wrong" class="wrong">${wrong}</small>`}
  </div>`
}

/**
 * A field for a value that is written as text. An invalid text is not accepted, and the form is not sent.
 * @param {Omit<FieldProps, 'problem'> & {read: (text: string) => any, write: (value: any) => string}} p read throws the fault
 */
export function Parsed({ read, write, value, onChange, ...rest }) {
  const fresh = { text: write(value), of: value, problem: '' }
  const [typed, setTyped] = useState(fresh)
  const { text, of, problem } = JSON.stringify(typed.of) === JSON.stringify(value) ? typed : fresh
  const take = (/** @type {string} */ t) => {
    try {
      const v = read(t)
      setTyped({ text: t, of: v, problem: '' })
      onChange(v)
    } catch (e) {
      setTyped({ text: t, of, problem: /** @type {Error} */ (e).message })
    }
  }
  return html`<${Field} ...${rest} value=${text} problem=${problem} onChange=${take} />`
}

/** Names, with commas between them. @param {Omit<FieldProps, 'problem'>} p */
export function Names(p) {
  return html`<${Parsed} help="Names, separated by commas." ...${p} write=${(/** @type {string[]|null} */ v) => (v ?? []).join(', ')}
    read=${(/** @type {string} */ t) => t.split(',').map((s) => s.trim()).filter(Boolean)} />`
}

/** A field with a value that is used when typing ends. @param {{label: string, value: any, onChange: (v: string) => void}} p */
export function Late({ label, value, onChange }) {
  const [text, setText] = useState(value ?? '')
  const told = useRef(onChange)
  told.current = onChange // of now: what else has changed meanwhile stays
  useEffect(() => setText(value ?? ''), [value])
  useEffect(() => {
    if (text === (value ?? '')) return
    const timer = setTimeout(() => told.current(text), 400)
    return () => clearTimeout(timer)
  }, [text])
  return html`<${Field} label=${label} value=${text} onChange=${setText} />`
}

/** A time for a field of the viewer's zone. @param {string|undefined|null} t */
export function local(t) {
  if (!t || Number.isNaN(Date.parse(t))) return ''
  const d = new Date(t)
  return new Date(d.getTime() - d.getTimezoneOffset() * 60000).toISOString().slice(0, 16)
}

/** The time that such a field has. @param {string} v @returns {string|null} */
export const instant = (v) => (v ? new Date(v).toISOString() : null)

/** @param {{label: string, value: any, onChange: (v: boolean) => void, help?: any, disabled?: boolean, switch?: boolean}} p */
export function Check(p) {
  const id = useId()
  return html`<div class="field check">
    <input id=${id} type="checkbox" role=${p.switch ? 'switch' : undefined} checked=${!!p.value} disabled=${p.disabled}
      aria-describedby=${p.help ? `${id}-help` : undefined} onChange=${(/** @type {any} */ e) => p.onChange(e.target.checked)} />
    <label for=${id}>${p.label}</label>
    ${p.help && html`<small id="${id}-help">${p.help}</small>`}
  </div>`
}

/** Some of several. @param {{label: string, of: import('./names.js').Names, value: string[]|null, onChange: (v: string[]) => void, help?: any, none?: string, name?: string, error?: any}} p */
export function Choices(p) {
  const value = p.value ?? []
  const named = new Set(p.of.options.map(([v]) => v))
  const other = p.of.known ? ' (removed)' : '' // those whose names are not known may be there all the same
  const all = [...p.of.options, ...value.filter((v) => !named.has(v)).map((v) => /** @type {[string, string]} */ ([v, v + other]))]
  return html`<fieldset class="choices">
    <legend>${p.label}</legend>
    ${p.help && html`<small>${p.help}</small>`}
    <${Problem} error=${p.of.error} />
    ${all.length === 0 && !p.of.error && html`<p class="none">${p.none ?? (p.of.known ? 'There are none yet.' : 'Loading…')}</p>`}
    ${all.map(([v, text]) => html`<${Check} key=${v} label=${text} value=${value.includes(v)}
      onChange=${(/** @type {boolean} */ on) => p.onChange(on ? [...value, v] : value.filter((x) => x !== v))} />`)}
  </fieldset>`
}

/** One of several objects with names. @param {Omit<FieldProps, 'options'> & {of: import('./names.js').Names, first: Array<[string, string]>}} p first: the options before them */
export function Choice({ of, first, ...rest }) {
  const other = rest.value && of.of(rest.value) === '' && !first.some(([v]) => v === rest.value) ? [[rest.value, rest.value]] : []
  return html`<${Field} ...${rest} options=${[...first, ...other, ...of.options]} help=${of.error ? html`<span class="wrong">The list cannot be read: ${of.error.message}</span>` : rest.help} />`
}

/**
 * A form that runs an act when it is sent. The reason of a failure stands below it, and the typed text stays. A fault
 * in a field holds the form back, for each of its buttons. The button that sends it gives its value to act.
 * @param {{act: {run: (value?: string) => any, busy?: boolean, error?: any}, submit: string, children: any, more?: any, class?: string, label?: string, disabled?: boolean, danger?: boolean}} p
 */
export function Form({ act, submit, children, more, class: kind = '', label, disabled, danger }) {
  const send = (/** @type {SubmitEvent} */ e) => {
    e.preventDefault()
    act.run(/** @type {HTMLButtonElement|null} */ (e.submitter)?.value)
  }
  return html`<form class=${kind} aria-label=${label} onSubmit=${send} onInvalidCapture=${uncover}>
    ${children}
    <${Problem} error=${act.error} />
    <div class="buttons"><button type="submit" class=${danger ? 'danger' : ''} aria-busy=${act.busy ? 'true' : undefined} disabled=${disabled}>${submit}</button>${more}</div>
  </form>`
}

/** Opens the part that hides a field with a fault. @param {any} e */
function uncover(e) {
  for (let d = e.target.closest('details'); d; d = d.parentElement.closest('details')) d.open = true
}

/** A button that runs an act; the reason of a failure stands next to it. @param {{label: string, act: (...v: any[]) => Promise<any>, name?: string, class?: string, disabled?: boolean, title?: string}} p name: where the label does not name the object */
export function Act({ label, act, name, class: kind = 'secondary', disabled, title }) {
  const doing = useAct(act)
  return html`<span class="act"><button type="button" class=${kind} aria-label=${name} title=${title} disabled=${disabled}
    aria-busy=${doing.busy ? 'true' : undefined} onClick=${() => doing.run()}>${label}</button>
    ${doing.error && html`<${Problem} error=${doing.error} />`}</span>`
}

/** A number of a field, or null where it is empty. @param {any} v */
export const numberOrNull = (v) => (v === '' || v === null || v === undefined ? null : Number(v))

/** A budget under edit: its period, and its limits. @param {{value: any, onChange: (v: any) => void, error?: any, name?: string}} p */
export function BudgetFields({ value, onChange, error }) {
  const b = value ?? { period: '', max_tokens: '', max_runs: '' }
  const set = (/** @type {any} */ change) => {
    const next = { ...b, ...change }
    onChange(next.period ? next : null)
  }
  return html`<fieldset class="row budget"><legend>Budget</legend>
    <${Field} label="Budget period" value=${b.period} options=${[['', 'no budget'], ['day', 'each day'], ['month', 'each month']]} onChange=${(/** @type {string} */ v) => set({ period: v })} error=${error} />
    ${b.period && html`
      <${Field} label="Token limit" type="number" min="1" name="budget.max_tokens" value=${b.max_tokens} onChange=${(/** @type {string} */ v) => set({ max_tokens: numberOrNull(v) })} error=${error} />
      <${Field} label="Run limit" type="number" min="1" name="budget.max_runs" value=${b.max_runs} onChange=${(/** @type {string} */ v) => set({ max_runs: numberOrNull(v) })} error=${error} />`}
  </fieldset>`
}

/** A budget as the API takes it. @param {any} b */
export function budgetOf(b) {
  if (!b?.period) return null
  /** @type {any} */
  const out = { period: b.period }
  if (b.max_tokens) out.max_tokens = b.max_tokens
  if (b.max_runs) out.max_runs = b.max_runs
  return out
}

/** Members of a body, the budget among them as the API takes it. @param {Record<string, any>} members */
export const withBudget = (members) => ('budget' in members ? { ...members, budget: budgetOf(members.budget) } : members)

/** A budget in words. @param {any} b */
export function budgetWords(b) {
  if (!b) return null
  const parts = [b.max_tokens && `${b.max_tokens.toLocaleString()} tokens`, b.max_runs && `${b.max_runs.toLocaleString()} runs`]
  return `${parts.filter(Boolean).join(', ')} each ${b.period}`
}

/** A button that leads to the form that changes the page's object. */
export function EditButton() {
  const go = () => /** @type {HTMLElement|null} */ (document.querySelector('main form.edit :is(input, textarea, select)'))?.focus()
  return html`<button type="button" class="secondary" onClick=${go}>Edit</button>`
}
