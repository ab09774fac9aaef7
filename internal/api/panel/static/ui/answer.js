// The answer of an agent, with its citations. Each citation links to the place that it cites.
import { useMemo } from '../vendor/hooks.js'
import { html } from '../html.js'
import { duration, number } from '../format.js'
import { citedAt } from './cited.js'
import { Json } from './parts.js'
import { Markdown } from './markdown.js'

/** @type {any[]} */
const none = []

/** @param {{text: string, citations?: any[]|null}} p */
export function Text({ text, citations }) {
  const all = citations ?? none
  const cite = useMemo(() => (/** @type {number} */ n) => citedAt(all.find((c) => c.n === n)), [all])
  return html`<${Markdown} text=${text} cite=${cite} />
    ${all.length > 0 && html`<ol class="citations" aria-label="Citations">${all.map((c) => html`<li key=${c.n} class="small">
      [${c.n}] ${citedAt(c) ? html`<a href=${citedAt(c)}>${c.title}</a>${c.chunk.page_from ? `, page ${c.chunk.page_from}` : ''}: “${c.text}”`
        : c.state === 'restricted' ? 'a document that you may not read' : 'a deleted document'}</li>`)}</ol>`}`
}

/** @param {{result: any}} p */
export function Answered({ result }) {
  return html`<${Text} text=${result.answer ?? ''} citations=${result.citations} />
    ${result.output !== undefined && html`<${Json} value=${result.output} label="Output" />`}
    <p class="small">${result.finish_reason === 'empty' ? 'the model sent no text' : result.finish_reason} · ${number(result.usage?.input_tokens)} tokens in, ${number(result.usage?.output_tokens)} out · ${duration(result.usage?.active_ms)} of work</p>`
}
