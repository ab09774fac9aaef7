// The place that a citation means.
import { to } from '../router.js'

/** @param {any} c a citation */
export function citedAt(c) {
  if (!c || c.state || !c.document_id) return null
  const at = c.quote ?? c.chunk
  return to(['knowledge', c.knowledge_base_id, c.document_id], { from: at.start, to: at.end, begins: Array.from(c.text ?? '').slice(0, 60).join('') })
}

/** Whether a text still has at a place the beginning in the link of {@link citedAt}: documents change. @param {{slice: (from: number, to?: number) => string}} text @param {number} from @param {string} begins */
export const stands = (text, from, begins) => text.slice(from, from + Array.from(begins).length) === begins
