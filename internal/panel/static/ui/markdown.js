// Text that models, users and documents wrote. It is data of strangers: Markdown is rendered by one library, which shows
// markup that stands in it as the text that it is, and pictures by their names; another takes out what is not plain all
// the same. So nothing is ever parsed that would load something from elsewhere, style itself or run.
import DOMPurify from '../vendor/dompurify.js'
import { Marked } from '../vendor/marked.js'
import { useLayoutEffect, useRef } from '../vendor/hooks.js'
import { html } from '../html.js'

/** @param {string} text */
const asText = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)

const marked = new Marked({
  gfm: true, breaks: true, async: false,
  renderer: {
    html: ({ text }) => asText(text),
    image: ({ text, href }) => asText(`[picture: ${text || href}]`),
  },
})

const allowed = ['p', 'br', 'hr', 'strong', 'em', 'b', 'i', 's', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'table',
  'thead', 'tbody', 'tr', 'th', 'td', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'sup', 'sub', 'kbd', 'span']

DOMPurify.addHook('afterSanitizeAttributes', (/** @type {Element} */ node) => {
  if (node.tagName !== 'A') return
  if (!/^(https?:|mailto:)/i.test(node.getAttribute('href') ?? '')) node.removeAttribute('href')
  node.setAttribute('rel', 'noopener noreferrer')
  node.setAttribute('target', '_blank')
})

/** What is safe to show of a text. @param {string} text @returns {DocumentFragment} */
export function rendered(text) {
  const fragment = DOMPurify.sanitize(/** @type {string} */ (marked.parse(text)), {
    ALLOWED_TAGS: allowed, ALLOWED_ATTR: ['href', 'title', 'start', 'align'], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  })
  // Headings of strangers do not head our page.
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
 * Markdown. Marks like [1] become links to what they cite.
 * @param {{text: string, cite?: (n: number) => string|null}} p
 */
export function Markdown({ text, cite }) {
  const place = useRef(/** @type {HTMLElement|null} */ (null))
  useLayoutEffect(() => {
    const fragment = rendered(text)
    if (cite) linkCitations(fragment, cite)
    place.current?.replaceChildren(fragment)
  }, [text, cite])
  return html`<div class="prose" ref=${place}></div>`
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
