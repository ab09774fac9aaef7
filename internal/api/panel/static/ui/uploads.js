// The present documents of files that were sent, and the missing part of their text.

/** @typedef {{document: any}} Sent a file with its document, as it was seen last */

/** @param {any} d a document */
export const underWay = (d) => ['pending', 'processing'].includes(d.status)

/**
 * The documents that were sent and have another state among the newest of their base. In addition some active documents
 * that are not among these, each to be read by its own address: it is older, or it was deleted.
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

/** The pages that a warning means, in ranges. @param {{pages: number[], count: number}} w pages: the first of them; count: of all */
export function pagesText({ pages, count }) {
  const ranges = /** @type {[number, number][]} */ ([])
  for (const page of pages) {
    const last = ranges[ranges.length - 1]
    if (last?.[1] === page - 1) last[1] = page
    else ranges.push([page, page])
  }
  const text = ranges.slice(0, 10).map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(', ')
  return `${count === 1 ? 'Page' : 'Pages'} ${text}${count > pages.length || ranges.length > 10 ? ` and others, ${count} in all` : ''}`
}
