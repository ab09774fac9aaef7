// Which documents files that were sent have become, as they are now.

/** @typedef {{document: any}} Sent a file with its document, as it was seen last */

/** @param {any} d a document */
export const underWay = (d) => ['pending', 'processing'].includes(d.status)

/**
 * What the newest documents of a base say of those that were sent; and some that are under way and not among them, each
 * to be read by its own address: an older one was sent once more, or it was deleted.
 * @template {Sent} T @param {T[]} sent @param {any[]|null} newest null: not known yet @param {number} most of those to be read
 * @returns {{news: [T, any][], alone: T[]}}
 */
export function followed(sent, newest, most) {
  const now = new Map((newest ?? []).map((d) => [d.document_id, d]))
  const news = /** @type {[T, any][]} */ ([])
  const alone = /** @type {T[]} */ ([])
  for (const s of sent) {
    const d = now.get(s.document.document_id)
    if (d && d !== s.document) news.push([s, d])
    if (!d && newest && underWay(s.document) && alone.length < most) alone.push(s)
  }
  return { news, alone }
}
