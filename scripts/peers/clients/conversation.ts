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

// The events of an answer: lines of JSON, or Server-Sent Events.
async function* streamed(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<RunEvent> {
  let rest = ''
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const data = line.replace(/^data: /, '')
      if (data.startsWith('{')) yield JSON.parse(data) as RunEvent
    }
  }
}

async function* events(run_id: string): AsyncGenerator<RunEvent> {
  const { data, error } = await api.GET('/api/v1/runs/{run_id}/stream', { params: { path: { run_id } }, parseAs: 'stream' })
  yield* streamed(must(data, 'a stream', error))
}

// The first thing that a run waits for.
async function paused(events: AsyncGenerator<RunEvent>): Promise<Interrupt> {
  for await (const event of events) {
    const list = event.event === 'init' ? event.run.interrupts : event.event === 'status' ? event.interrupts : []
    if (list[0]) return list[0]
  }
  throw new Error('the stream ended early')
}

// What a run has come to in the end.
async function result(run_id: string): Promise<components['schemas']['Result']> {
  for await (const event of events(run_id)) if (event.event === 'done') return must(event.run.result, 'a result')
  throw new Error('the stream ended early')
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
const pause = await paused(events(handle.run_id))
const resumed = await api.POST('/api/v1/runs/{run_id}/resume', {
  params: { path: { run_id: handle.run_id } },
  body: { decisions: [{ interrupt_id: pause.id, decision: 'answer', message: 'Paris' }] },
})
must(resumed.data, 'a run', resumed.error)
const answer = (await result(handle.run_id)).answer

const toolkits = await api.GET('/api/v1/toolkits')
const careful = await api.POST('/api/v1/agents', {
  body: {
    name: 'Careful', toolkit_ids: [must(toolkits.data?.toolkits[0], 'a toolkit', toolkits.error).toolkit_id],
    approval: { mode: 'always' },
  },
})
const calling = await api.POST('/api/v1/chat', {
  body: {
    agent_id: must(careful.data, 'an agent', careful.error).agent_id, message: '/tool echo {"text": "one"}', streaming: true,
    files: ['a text'],
  },
  bodySerializer: body => form({ ...body, files: new File(['a text'], 'with.txt', { type: 'text/plain' }) }),
  parseAs: 'stream',
})
const run_id = must(calling.response.headers.get('X-Agent-Run-Id'), 'the id of a run')
const call = await paused(streamed(must(calling.data, 'a stream', calling.error)))
if (call.tool?.name !== 'echo' || call.tool.arguments['text'] !== 'one') throw new Error(JSON.stringify(call))
const withFile = await api.GET('/api/v1/runs/{run_id}/messages', { params: { path: { run_id } } })
if (must(withFile.data, 'messages', withFile.error).messages[0]?.files[0]?.name !== 'with.txt') throw new Error('no file')
const path = { run_id }
const edit = await api.POST('/api/v1/runs/{run_id}/resume', {
  params: { path }, body: { decisions: [{ interrupt_id: call.id, decision: 'edit', arguments: { text: 'two' } }] },
})
must(edit.data, 'a run', edit.error)
const edited = must((await result(run_id)).steps[0], 'a step').output
const late = await api.POST('/api/v1/runs/{run_id}/resume', {
  params: { path }, body: { decisions: [{ interrupt_id: pause.id, decision: 'answer', message: 'Paris' }] },
})
if (must(late.error, 'an error').run_status !== 'completed') throw new Error(JSON.stringify(late.error))

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
console.log(JSON.stringify({
  answer: done.answer, asked: pause.prompt, kind: pause.kind, resumed: answer, runs, error: code,
  call: call.kind, edited, late: late.error?.code,
}))
process.exit(0)
