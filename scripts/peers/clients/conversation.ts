// Holds a conversation with the service by types that openapi-typescript has made of its OpenAPI document. Prints what it
// saw as JSON. Arguments: URL KEY.
import createClient from 'openapi-fetch'
import type { components, paths } from './api.js'

type RunEvent = components['schemas']['RunEvent']
type Interrupt = components['schemas']['Interrupt']

const [url, key] = process.argv.slice(2)
const api = createClient<paths>({ baseUrl: url!.replace(/\/api\/v1$/, ''), headers: { Authorization: `Bearer ${key}` } })

function must<T>(value: T | undefined | null, what: string, error?: unknown): T {
  if (value === undefined || value === null) throw new Error(`${what}: ${JSON.stringify(error)}`)
  return value
}

// The form as it is sent: a client leaves that to whoever calls it.
function form(body: object): FormData {
  const data = new FormData()
  for (const [name, value] of Object.entries(body)) {
    for (const one of Array.isArray(value) ? value : [value]) data.append(name, one instanceof Blob ? one : String(one))
  }
  return data
}

async function* events(run_id: string): AsyncGenerator<RunEvent> {
  const { data, error } = await api.GET('/api/v1/runs/{run_id}/stream', { params: { path: { run_id } }, parseAs: 'stream' })
  let rest = ''
  for await (const piece of must(data, 'a stream', error).pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.startsWith('data: ')) yield JSON.parse(line.slice(6)) as RunEvent
  }
}

const made = await api.POST('/api/v1/agents', { body: { name: 'From TypeScript' } })
const agent_id = must(made.data, 'an agent', made.error).agent_id

const sent = await api.POST('/api/v1/files', {
  body: { file: 'a text' }, bodySerializer: () => form({ file: new File(['a text'], 'note.txt', { type: 'text/plain' }) }),
})
const file = must(sent.data, 'a file', sent.error)

const chatted = await api.POST('/api/v1/chat', {
  body: { agent_id, message: 'hello', file_ids: [file.file_id], wait: true }, bodySerializer: form,
})
const done = must(chatted.data, 'an answer', chatted.error)
if (!('answer' in done)) throw new Error(JSON.stringify(done))
const said = await api.GET('/api/v1/runs/{run_id}/messages', { params: { path: { run_id: done.run_id } } })
if (must(said.data, 'messages', said.error).messages[0]?.files[0]?.name !== 'note.txt') throw new Error(JSON.stringify(said.data))

const asking = await api.POST('/api/v1/chat', {
  body: { agent_id, message: '/ask Which city?', wait: false }, bodySerializer: form,
})
const handle = must(asking.data, 'a handle', asking.error)
let paused: Interrupt | undefined
for await (const event of events(handle.run_id)) {
  switch (event.event) {
    case 'init': paused = event.run.interrupts[0]; break
    case 'status': paused = event.interrupts[0]; break
  }
  if (paused) break
}
const pause = must(paused, 'a pause')
const resumed = await api.POST('/api/v1/runs/{run_id}/resume', {
  params: { path: { run_id: handle.run_id } },
  body: { decisions: [{ interrupt_id: pause.id, decision: 'answer', message: 'Paris' }] },
})
must(resumed.data, 'a run', resumed.error)
let answer: string | undefined
for await (const event of events(handle.run_id)) if (event.event === 'done') answer = event.run.result?.answer

let runs = 0
let cursor: string | null = null
do {
  const query: { agent_id: string, limit: number, cursor?: string } = { agent_id, limit: 1 }
  if (cursor) query.cursor = cursor
  const page = await api.GET('/api/v1/runs', { params: { query } })
  const list = must(page.data, 'a page', page.error)
  runs += list.runs.length
  cursor = list.next_cursor
} while (cursor)

const missing = await api.GET('/api/v1/runs/{run_id}', { params: { path: { run_id: '0'.repeat(24) } } })
const code = must(missing.error, 'an error').code
console.log(JSON.stringify({ answer: done.answer, asked: pause.prompt, kind: pause.kind, resumed: answer, runs, error: code }))
process.exit(0)
