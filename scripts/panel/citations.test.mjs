// Where the link of a citation leads, also when its document has changed since.
import assert from 'node:assert/strict'
import { test } from 'node:test'

Object.assign(globalThis, { // what the modules look at when they are loaded
  window: globalThis, sessionStorage: { getItem: () => null }, location: { hash: '' }, addEventListener: () => {}, document: { addEventListener: () => {} },
})
const { citedAt, stands } = await import('../../internal/api/panel/static/ui/cited.js')

test('A citation leads to its place, as long as its words stand there', () => {
  const quote = '😀 The price is 40 euros. ' + 'And more. '.repeat(20)
  const link = citedAt({ knowledge_base_id: 'b', document_id: 'd', chunk: { start: 0, end: 500 }, quote: { start: 5, end: 205 }, text: quote })
  const query = new URLSearchParams(link.split('?')[1])
  const begins = query.get('begins')
  assert.deepEqual([query.get('from'), query.get('to'), Array.from(begins).length], ['5', '205', 60])
  const text = (/** @type {string} */ t) => ({ slice: (/** @type {number} */ a, /** @type {number} */ b) => Array.from(t).slice(a, b).join('') })
  assert.ok(stands(text('12345' + quote), 5, begins))
  assert.ok(!stands(text('12345' + quote.replace('40', '50')), 5, begins))
  assert.ok(!stands(text('short'), 5, begins))
  assert.ok(stands(text('any'), 2, ''), 'a link without them')
})
