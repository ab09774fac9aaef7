// How the panel follows the documents that it has sent, and what it says of missing text.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followed, pagesText } from '../../internal/api/panel/static/ui/uploads.js'

const sent = (/** @type {string} */ id, status = 'pending') => ({ document: { document_id: id, status } })

test('A document that is under way and not among the newest is read by its own address', () => {
  const [there, older, ended] = [sent('there'), sent('older'), sent('ended', 'failed')]
  const row = { document_id: 'there', status: 'ready' }
  assert.deepEqual(followed([there, older, ended], [row], 20), { news: [[there, row]], alone: [older] })
  assert.deepEqual(followed([there, older], null, 20), { news: [], alone: [] }, 'they are not known yet')
  there.document = row
  assert.deepEqual(followed([there], [row], 20), { news: [], alone: [] })
})

test('Only some are read one by one', () => {
  const all = Array.from({ length: 6000 }, (_, i) => sent(`d${i}`))
  assert.deepEqual(followed(all, [], 20).alone, all.slice(0, 20))
})

test('The pages of a warning are read as ranges', () => {
  assert.equal(pagesText({ pages: [3], count: 1 }), 'Page 3')
  assert.equal(pagesText({ pages: [1, 2, 3, 5, 8, 9], count: 6 }), 'Pages 1–3, 5, 8–9')
  assert.equal(pagesText({ pages: [1, 2], count: 90 }), 'Pages 1–2 and others, 90 in all')
  const odd = Array.from({ length: 20 }, (_, i) => 2 * i + 1)
  assert.equal(pagesText({ pages: odd, count: 20 }), 'Pages 1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and others, 20 in all')
})
