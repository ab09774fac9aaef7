// The OpenAPI document's texts about the members of a body: the help of a form is written once, where the API is
// described.
import { signal } from '../vendor/signals.js'
import { get } from '../api.js'

/** @type {import('../vendor/signals.js').Signal<any>} */
const schemas = signal(null)
let asked = false

/** Help by member. @param {string} name of a schema @returns {(path: string) => string} */
export function useSchemaHelp(name) {
  if (!asked) {
    asked = true
    get('/openapi.json').then((d) => { schemas.value = d.components.schemas }, () => { asked = false })
  }
  const all = schemas.value
  return (path) => {
    let s = all?.[name]
    let text = ''
    for (const part of path.split('.')) {
      s = s?.properties?.[part]
      text = s?.description ?? ''
      const of = s?.$ref ?? s?.anyOf?.[0]?.$ref
      if (of) s = all[of.split('/').pop()]
    }
    return text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.')
  }
}
