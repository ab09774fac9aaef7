// A form for a value that a JSON schema describes: a field for each simple member, JSON for the rest.
import { html } from '../html.js'
import { pretty } from '../format.js'
import { Check, Field, Parsed } from './form.js'

/** @param {{schema: any, value: any, onChange: (v: any) => void}} p */
export function SchemaForm({ schema, value, onChange }) {
  const members = Object.entries(membersOf(schema, value))
  if (members.length === 0) return html`<${JsonField} label="Arguments" value=${value} onChange=${onChange} />`
  const required = new Set(schema?.required ?? [])
  return html`${members.map(([name, s]) => html`<${Member} key=${name} name=${name} schema=${s} required=${required.has(name)} value=${value?.[name]}
    onChange=${(/** @type {any} */ v) => {
      const next = { ...value, [name]: v }
      if (v === undefined) delete next[name]
      onChange(next)
    }} />`)}`
}

/** The members that there may be: of the schema, or, where there is none, of the value. @param {any} schema @param {any} value @returns {Record<string, any>} */
function membersOf(schema, value) {
  const of = schema?.properties ?? {}
  const rest = Object.fromEntries(Object.entries(value ?? {}).filter(([k]) => !(k in of)).map(([k, v]) => [k, { type: typeof v }]))
  return { ...of, ...rest }
}

/** @param {{name: string, schema: any, required: boolean, value: any, onChange: (v: any) => void}} p */
function Member({ name, schema, required, value, onChange }) {
  const kind = Array.isArray(schema.type) ? schema.type.find((/** @type {string} */ t) => t !== 'null') : schema.type
  const help = schema.description
  const label = name
  if (Array.isArray(schema.enum)) {
    const options = [...(required ? [] : [['', '–']]), ...schema.enum.map((/** @type {any} */ v) => [String(v), String(v)])]
    return html`<${Field} label=${label} help=${help} options=${options} value=${value === undefined ? '' : String(value)}
      onChange=${(/** @type {string} */ v) => onChange(schema.enum.find((/** @type {any} */ e) => String(e) === v))} />`
  }
  if (kind === 'boolean') return html`<${Check} label=${label} help=${help} value=${value} onChange=${onChange} />`
  if (kind === 'number' || kind === 'integer') {
    return html`<${Field} label=${label} help=${help} type="number" step=${kind === 'integer' ? '1' : 'any'} required=${required} value=${value}
      onChange=${(/** @type {string} */ v) => onChange(v === '' ? undefined : Number(v))} />`
  }
  if (kind === 'string') {
    return html`<${Field} label=${label} help=${help} required=${required} value=${value} rows=${String(value ?? '').length > 60 ? 4 : undefined}
      onChange=${(/** @type {string} */ v) => onChange(v === '' && !required ? undefined : v)} />`
  }
  return html`<${JsonField} label=${label} help=${help} value=${value} onChange=${onChange} />`
}

/** A field whose text is JSON. @param {{label: string, help?: any, value: any, onChange: (v: any) => void, rows?: number, name?: string, error?: any}} p */
export function JsonField({ rows = 4, ...rest }) {
  return html`<${Parsed} ...${rest} rows=${rows} read=${readJson} write=${write} />`
}

const write = (/** @type {any} */ v) => (v === undefined || v === null ? '' : pretty(v))

/** The value that a text has; it throws why it has none. @param {string} text */
export function readJson(text) {
  if (text.trim() === '') return undefined
  try {
    return JSON.parse(text)
  } catch (e) {
    throw new Error(`This is not valid JSON: ${/** @type {Error} */ (e).message}`)
  }
}
