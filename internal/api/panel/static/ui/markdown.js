// Text of models, users and documents, which is data of others. One library formats Markdown; it shows markup in it as
// text, and pictures by their names. Another library removes all markup that is not plain. So nothing is ever parsed
// that would load data from elsewhere, style itself or run. A text that cannot be formatted is shown as it is.
import DOMPurify from '../vendor/dompurify.js'
import { useLayoutEffect, useMemo, useRef } from '../vendor/hooks.js'
import { html } from '../html.js'
import { formatted } from './formatted.js'
import { Plain } from './parts.js'

const allowed = ['p', 'br', 'hr', 'strong', 'em', 'b', 'i', 's', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'table',
  'thead', 'tbody', 'tr', 'th', 'td', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'sup', 'sub', 'kbd', 'span']

DOMPurify.addHook('afterSanitizeAttributes', (/** @type {Element} */ node) => {
  if (node.tagName !== 'A') return
  if (!/^(https?:|mailto:)/i.test(node.getAttribute('href') ?? '')) node.removeAttribute('href')
  node.setAttribute('rel', 'noopener noreferrer')
  node.setAttribute('target', '_blank')
})

/**
 * The safe markup of a text, with marks like [1] as links to their citations. Null: it cannot be formatted.
 * @param {string} text @param {(n: number) => string|null} [cite] @returns {DocumentFragment|null}
 */
export function rendered(text, cite) {
  try {
    const markup = formatted(text)
    if (markup === null) return null
    const fragment = safe(markup)
    if (cite) linkCitations(fragment, cite)
    return fragment
  } catch (e) {
    console.warn(e)
    return null
  }
}

/** @param {string} markup */
function safe(markup) {
  const fragment = DOMPurify.sanitize(markup, {
    ALLOWED_TAGS: allowed, ALLOWED_ATTR: ['href', 'title', 'start', 'align'], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  })
  // Headings of others do not head our page.
  for (const h of fragment.querySelectorAll('h1,h2,h3,h4,h5,h6')) {
    const p = document.createElement('p')
    p.className = 'heading'
    p.append(...h.childNodes)
    h.replaceWith(p)
  }
  for (const wide of fragment.querySelectorAll('pre,table')) wide.setAttribute('tabindex', '0')
  return fragment
}

/**
 * Markdown, or the text as it is. A growing text stays plain once it is plain: it does not change back and forth while
 * it comes, and is not read again and again.
 * @param {{text: string, cite?: (n: number) => string|null}} p
 */
export function Markdown({ text, cite }) {
  const place = useRef(/** @type {HTMLElement|null} */ (null))
  const plain = useRef(/** @type {string|null} */ (null)) // the text that could not be formatted last
  const fragment = useMemo(() => {
    const grown = plain.current !== null && text.startsWith(plain.current)
    const made = grown ? null : rendered(text, cite)
    plain.current = made ? null : text
    return made
  }, [text, cite])
  useLayoutEffect(() => {
    if (fragment) place.current?.replaceChildren(fragment)
  }, [fragment])
  if (fragment) return html`<div class="prose" ref=${place}></div>`
  return html`<${Plain} text=${text} /><p class="small">Shown as plain text: too long or too deeply nested to format.</p>`
}

/** @param {DocumentFragment} fragment @param {(n: number) => string|null} cite */
function linkCitations(fragment, cite) {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT)
  const texts = []
  while (walker.nextNode()) {
    const t = /** @type {Text} */ (walker.currentNode)
    if (/\[\d+\]/.test(t.data) && !t.parentElement?.closest('code,pre,a')) texts.push(t)
  }
  for (const t of texts) {
    t.replaceWith(...t.data.split(/(\[\d+\])/).map((part) => {
      const n = /^\[(\d+)\]$/.exec(part)
      const href = n && cite(Number(n[1]))
      if (!href) return document.createTextNode(part)
      const a = document.createElement('a')
      a.href = href
      a.className = 'cite'
      a.textContent = part
      a.setAttribute('aria-label', `Citation ${n[1]}`)
      return a
    }))
  }
}
