// How often the panel draws an answer that comes in very many pieces.
import assert from 'node:assert/strict'
import { mock, test } from 'node:test'

Object.assign(globalThis, { // what the modules look at when they are loaded
  window: globalThis, sessionStorage: { getItem: () => null }, location: { hash: '' }, addEventListener: () => {}, document: { addEventListener: () => {} },
})
const { Conversation } = await import('../../internal/api/panel/static/ui/conversation.js')

/** The characters that are drawn, all together, while a text of a length comes within three seconds. @param {number} length */
function drawn(length) {
  mock.timers.enable({ apis: ['setTimeout'] })
  const c = new Conversation('one')
  let all = 0
  const end = c.now.subscribe((now) => { all += now?.text.length ?? 0 })
  c.told({ event: 'init', run: { run_id: 'r', chat_id: 'one', status: 'running' } })
  for (let i = 0; i < 3000; i++) {
    c.told({ event: 'delta', text: 'x'.repeat(length / 3000) })
    mock.timers.tick(1)
  }
  c.told({ event: 'done', run: { run_id: 'r', chat_id: 'one', status: 'completed' } })
  assert.equal(c.now.value?.text.length, length)
  end()
  mock.timers.reset()
  return all
}

test('a growing answer is not drawn anew for each piece', () => {
  const [once, twice] = [drawn(60_000), drawn(120_000)]
  assert.ok(once < 20 * 60_000, `${once} characters were drawn`)
  assert.ok(twice < 3 * once, `${twice} characters were drawn, of half the text ${once}`)
})

test('what takes long to draw is drawn seldom', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  let clock = 0
  t.mock.method(performance, 'now', () => clock)
  const c = new Conversation('one')
  let draws = 0
  c.now.subscribe(() => { draws++; clock += 500 }) // a draw takes half a second
  c.told({ event: 'init', run: { run_id: 'r', chat_id: 'one', status: 'running' } })
  mock.timers.tick(1)
  const before = draws
  for (let i = 0; i < 4000; i++) {
    c.told({ event: 'delta', text: 'x' })
    mock.timers.tick(1)
  }
  assert.ok(draws - before <= 2, `${draws - before} draws of half a second in four seconds`)
  mock.timers.reset()
})
