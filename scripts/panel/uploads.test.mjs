// How the panel follows the documents that it has sent.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followed } from '../../internal/api/panel/static/ui/uploads.js'

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
